"""The shapes at which a case is looked at beyond what fits in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isqrt, prod
from typing import Any

from tilesight.capture.inputs import TensorSpec
from tilesight.errors import InputError

PROBES = 24
"""Launcher runs to find how large a dimension it takes: enough to halve a factor of 2³³ to within 1%."""


@dataclass(frozen=True)
class Scaling:
    """The inputs of a case at other sizes.

    Args:
        sizes: each size that is scaled, in every tensor that has it, and what it becomes
        specs: the inputs; an integer's limit that is such a size is scaled with it
    """

    sizes: Mapping[int, int]
    specs: tuple[Any, ...]

    @property
    def tensors(self) -> list[TensorSpec]:
        """The inputs that are tensors."""
        return [spec for spec in self.specs if isinstance(spec, TensorSpec)]


def scalings(specs: Sequence[Any], scale_to: int) -> list[Scaling]:
    """The inputs with each dimension in turn scaled until the largest tensor has enough elements.

    A size of 1, which broadcasts, is no dimension.

    Raises: InputError: no tensor is smaller than that, or one is not contiguous, or an input is an integer
    """
    tensors = [spec for spec in specs if isinstance(spec, TensorSpec)]
    _check_inputs(specs, tensors)
    sizes = _dimensions(tensors)
    if not sizes or max(prod(spec.shape) for spec in tensors) >= scale_to:
        raise InputError(
            f"inputs {', '.join(map(str, tensors))} cannot be scaled",
            where="--scale-to",
            expected=f"a tensor of more than one and fewer than {scale_to:,} elements",
        )
    return [with_sizes(specs, {size: size * least_factor(tensors, size, scale_to)}) for size in sizes]


def with_sizes(specs: Sequence[Any], sizes: Mapping[int, int]) -> Scaling:
    """The inputs with some sizes replaced, those that bound an index too."""

    def scaled(spec: TensorSpec) -> TensorSpec:
        limit = None if spec.limit is None else sizes.get(spec.limit, spec.limit)
        return replace(spec, shape=tuple(sizes.get(each, each) for each in spec.shape), strides=None, limit=limit)

    return Scaling(sizes, tuple(scaled(spec) if isinstance(spec, TensorSpec) else spec for spec in specs))


def largest_scalings(
    specs: Sequence[Any], scaling: Scaling, scale_to: int, runs: Callable[[Scaling], bool]
) -> Iterator[Scaling]:
    """What a launcher takes instead of a scaling of one dimension that it refuses.

    First that dimension as large as it goes. Then it is held there, and at the root of that factor, while each
    other dimension grows until the largest tensor has enough elements or the launcher takes no more: a product of
    two sizes may wrap where neither of them can be large enough alone.

    Args:
        runs: whether the launcher launches something at such sizes
    """
    ((size, large),) = scaling.sizes.items()
    most = _largest_factor(large // size, lambda factor: runs(with_sizes(specs, {size: size * factor})))
    if most is None:
        return
    if most > 1:
        yield with_sizes(specs, {size: size * most})
    others = [each for each in _dimensions([spec for spec in specs if isinstance(spec, TensorSpec)]) if each != size]
    for factor, other in product(dict.fromkeys((most, isqrt(most))), others):
        held = with_sizes(specs, {size: size * factor}).tensors

        def takes(times: int, factor: int = factor, other: int = other) -> bool:
            return runs(with_sizes(specs, {size: size * factor, other: other * times}))

        times = _largest_factor(least_factor(held, other, scale_to), takes) if _has(held, other) else None
        if times is not None and times > 1:
            yield with_sizes(specs, {size: size * factor, other: other * times})


def _has(tensors: Sequence[TensorSpec], size: int) -> bool:
    return any(size in spec.shape for spec in tensors)


def least_factor(tensors: Sequence[TensorSpec], size: int, scale_to: int) -> int:
    """The least whole factor for one size at which some tensor that has it has enough elements."""
    return min(_factor(spec, size, scale_to) for spec in tensors if size in spec.shape)


def _factor(spec: TensorSpec, size: int, scale_to: int) -> int:
    elements, times = prod(spec.shape), spec.shape.count(size)
    factor = max(1, int((scale_to / max(1, elements)) ** (1 / times)) - 1)
    while elements and elements * factor**times < scale_to:
        factor += 1
    return factor if elements else scale_to


def _largest_factor(high: int, holds: Callable[[int], bool]) -> int | None:
    """The largest factor up to `high` that holds, within 1%; None where 1 does not hold."""
    if holds(high):
        return high
    if high == 1 or not holds(1):
        return None
    low = 1
    for _ in range(PROBES):
        if high - low <= max(1, low // 100):
            break
        middle = max(low + 1, min(high - 1, isqrt(low * high)))
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _dimensions(tensors: Sequence[TensorSpec]) -> list[int]:
    return list(dict.fromkeys(size for spec in tensors for size in spec.shape if size > 1))


def _check_inputs(specs: Sequence[Any], tensors: Sequence[TensorSpec]) -> None:
    for spec in tensors:
        if spec.strides is not None and spec.strides != _contiguous(spec.shape):
            raise InputError(
                f"input {spec} has strides {list(spec.strides)}", where="--scale-to", expected="contiguous inputs"
            )
    for value in specs:
        if isinstance(value, int) and not isinstance(value, bool):
            raise InputError(
                f"an input is the integer {value}",
                where="--scale-to",
                expected="tensors, whose shapes can be scaled",
                next_step="let the launcher take sizes from its tensors",
            )


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(size or 1 for size in shape[axis + 1 :]) for axis in range(len(shape)))
