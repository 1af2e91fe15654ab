"""What the engine computes with: arrays with the program axis first, lane sums and pointers.

A block value of shape B in a chunk of P programs is an array [P, *B]; an axis along which it does
not vary may have extent 1, so splats, broadcasts and program-uniform values are never spread out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilesight.errors import UnsupportedError
from tilesight.ir.types import FloatType, IntegerType, Type, element_type

Array: TypeAlias = NDArray[Any]
Mask: TypeAlias = NDArray[np.bool_]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT_DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": BFLOAT16,
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
}
INTEGER_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}
INTEGER_RANGES = {INTEGER_DTYPES[bits]: (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)}
UNKNOWN_ROOT = -1


def dtype_of(type_: Type) -> np.dtype[Any]:
    """The NumPy dtype of a type's elements; pointers are int64 addresses.

    Raises: UnsupportedError: when NumPy and ml_dtypes have no such type
    """
    element = element_type(type_)
    if isinstance(element, FloatType):
        return FLOAT_DTYPES[element.name]
    if isinstance(element, IntegerType) and element.bits not in INTEGER_DTYPES:
        raise UnsupportedError(f"integers of {element.bits} bits", expected="i1, i8, i16, i32 or i64")
    return INTEGER_DTYPES[element.bits if isinstance(element, IntegerType) else 64]


class LaneSum:
    """Integers kept as a sum of terms that each vary along one axis: `pid * 1024 + arange`.

    Adding a bias, scaling and comparing with a bound then cost a term, not a block, and an address
    of this form is known to be a strided window. The sum always lies in the dtype's range.

    Args:
        dtype: of the sum
        terms: axis → int64 array of full rank with extent 1 on every other axis
    """

    __slots__ = ("_array", "_bounds", "dtype", "terms")

    def __init__(self, dtype: np.dtype[Any], terms: dict[int, Array]) -> None:
        self.dtype = dtype
        self.terms = terms
        self._array: Array | None = None
        self._bounds: tuple[int, int] | None = None

    @property
    def ndim(self) -> int:
        return next(iter(self.terms.values())).ndim

    @property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest lane."""
        if self._bounds is None:
            low = sum(int(term.min()) for term in self.terms.values())
            high = sum(int(term.max()) for term in self.terms.values())
            self._bounds = low, high
        return self._bounds

    @property
    def array(self) -> Array:
        """The lanes spread out; computed once."""
        if self._array is None:
            is_narrow = self.dtype.itemsize < 8 and self.bounds[0] >= -(1 << 31) and self.bounds[1] < 1 << 31
            narrow = self.dtype if is_narrow else np.int64
            parts = [term.astype(narrow) for term in self.terms.values()]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            self._array = total.astype(self.dtype, copy=False)
        return self._array

    def map(self, change: Callable[[Array], Array], axes: Callable[[int], int]) -> LaneSum:
        """The sum with each term reshaped by `change` and each axis renamed by `axes`."""
        return LaneSum(self.dtype, {axes(axis): change(term) for axis, term in self.terms.items()})


@dataclass(frozen=True, eq=False)
class Pointer:
    """Addresses with the tensor they derive from.

    Args:
        address: int64 byte addresses, as an array or a lane sum
        root: index into the launch's memories, one for all lanes or an array that broadcasts
            against `address`; -1 where it is not known
    """

    address: Array | LaneSum
    root: int | Array


@dataclass(frozen=True, eq=False)
class Descriptor:
    """A tensor by base, shape and strides, from which tiles are loaded.

    Args:
        base: pointer to element 0, one a program
        shape, strides: in elements, an array of one lane a program each
        padding: what lanes outside hold, 0 or NaN
    """

    base: Pointer
    shape: tuple[Array, ...]
    strides: tuple[Array, ...]
    padding: float = 0.0


Value: TypeAlias = Array | LaneSum | Pointer | Descriptor


def spread(value: Any) -> Any:
    """A lane sum as its array; anything else unchanged."""
    return value.array if type(value) is LaneSum else value


def spread_integers(value: Array | LaneSum) -> Array:
    return value.array if isinstance(value, LaneSum) else value


def bounds_of(value: Array | LaneSum) -> tuple[int, int]:
    """The lowest and the highest lane of integers."""
    return value.bounds if isinstance(value, LaneSum) else (int(value.min()), int(value.max()))


def varying_axes(array: Array) -> tuple[int, ...]:
    """The axes with more than one element."""
    return tuple(axis for axis, extent in enumerate(array.shape) if extent > 1)


def terms_of(value: Array | LaneSum) -> dict[int, Array] | None:
    """A value as terms by axis, or None when it varies along several axes at once."""
    if isinstance(value, LaneSum):
        return value.terms
    axes = varying_axes(value)
    if len(axes) > 1:
        return None
    return {axes[0] if axes else 0: value.astype(np.int64, copy=False)}


def add_lanes(lhs: Array | LaneSum, rhs: Array | LaneSum, dtype: np.dtype[Any], scale: int = 1) -> LaneSum | None:
    """`lhs + scale * rhs` term by term, or None when it is not such a sum or leaves the dtype's range."""
    if lhs.ndim != rhs.ndim:
        return None
    left, right = terms_of(lhs), terms_of(rhs)
    if left is None or right is None:
        return None
    terms = dict(left)
    for axis, term in right.items():
        scaled = term if scale == 1 else term * scale
        terms[axis] = terms[axis] + scaled if axis in terms else scaled
    return fit_lanes(terms, dtype)


def scale_lanes(lanes: LaneSum, factor: Array) -> LaneSum | None:
    """`lanes * factor` for a factor that is the same in every lane; None when it leaves the range."""
    scale = int(factor.reshape(-1)[0])
    return fit_lanes({axis: term * scale for axis, term in lanes.terms.items()}, lanes.dtype)


def fit_lanes(terms: dict[int, Array], dtype: np.dtype[Any]) -> LaneSum | None:
    """The terms as a sum, constant ones folded into their neighbour, if no lane wraps around."""
    constant = [axis for axis, term in terms.items() if term.size == 1]
    for axis in constant:
        if len(terms) > 1:
            bias = terms.pop(axis)
            other = next(iter(terms))
            terms[other] = terms[other] + bias
    total = LaneSum(dtype, terms)
    low, high = INTEGER_RANGES[dtype]
    return total if low <= total.bounds[0] and total.bounds[1] <= high else None


def map_lanes(value: Any, change: Callable[[Array], Array]) -> Any:
    """Apply a reshaping to an array, or to a pointer's addresses and roots."""
    if isinstance(value, Pointer):
        root = value.root if isinstance(value.root, int) else change(value.root)
        return Pointer(change(spread_integers(value.address)), root)
    return change(spread_integers(value))


def root_array(pointer: Pointer) -> Array:
    """A pointer's roots as an array that broadcasts against any block of the same rank."""
    if isinstance(pointer.root, int):
        return np.full((1,) * pointer.address.ndim, pointer.root, np.int64)
    return pointer.root


def choose(condition: Mask, chosen: Any, other: Any) -> Any:
    """`chosen` in the lanes where the condition holds, `other` elsewhere; for arrays and pointers."""
    if isinstance(chosen, Pointer):
        return _choose_pointer(condition, chosen, other)
    if isinstance(chosen, Descriptor):
        base = _choose_pointer(condition, chosen.base, other.base)
        shape = tuple(choose(condition, a, b) for a, b in zip(chosen.shape, other.shape, strict=True))
        strides = tuple(choose(condition, a, b) for a, b in zip(chosen.strides, other.strides, strict=True))
        return Descriptor(base, shape, strides, chosen.padding)
    return _choose_array(condition, spread_integers(chosen), spread_integers(other))


def _choose_array(condition: Mask, chosen: Array, other: Array) -> Array:
    if condition.size == 1:
        return chosen if condition.reshape(-1)[0] else other
    if chosen.dtype.kind == "V" or chosen.dtype == BFLOAT16:
        storage = np.dtype(f"u{chosen.itemsize}")
        return np.where(condition, chosen.view(storage), other.view(storage)).view(chosen.dtype)
    return np.where(condition, chosen, other)


def _choose_pointer(condition: Mask, chosen: Pointer, other: Pointer) -> Pointer:
    address = choose(condition, chosen.address, other.address)
    if isinstance(chosen.root, int) and isinstance(other.root, int) and chosen.root == other.root:
        return Pointer(address, chosen.root)
    return Pointer(address, choose(condition, root_array(chosen), root_array(other)))


def choose_programs(programs: Mask, chosen: Any, other: Any) -> Any:
    """`choose` with one condition a program, whatever the values' rank."""
    if chosen is other:
        return chosen
    rank = rank_of(chosen)
    return choose(programs.reshape(-1, *(1,) * (rank - 1)), chosen, other)


def rank_of(value: Any) -> int:
    """The number of axes, the program axis counted."""
    if isinstance(value, Descriptor):
        return 1
    return value.address.ndim if isinstance(value, Pointer) else value.ndim
