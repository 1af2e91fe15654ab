"""The inputs of the correctness matrix's runs: from a case's own, from `--shapes` and `--dtypes`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tilesight.capture.case import Case
from tilesight.capture.inputs import DTYPES, TensorSpec, parse_inputs, real_inputs
from tilesight.errors import InputError
from tilesight.roads.layouts import LAYOUTS, Layout
from tilesight.roads.shapes import Sizes, Symbols

VARIED_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHAPES_FORM = (
    'shapes separated by ";", each as --inputs takes it ("f32[7,3],f32[3]"), the same without dtypes '
    '("[7,3],[3]"), or the first input\'s sizes alone ("7,3")'
)
_SIZES_ALONE = re.compile(r"\d+(?:\s*,\s*\d+)*")
_WITHOUT_DTYPE = re.compile(r"(^|,)\s*\[")


@dataclass(frozen=True)
class Cell:
    """One run of the matrix: inputs, dtype and layout.

    Args:
        values: the inputs: a TensorSpec for each tensor, other values as they are
        dtype: of the floating-point tensors; None where there are none
        layout: of one of the inputs; None when all are contiguous
        laid_out: index among `values` of the input that has the layout
        sizes: what each symbol of the case is; None where it has no symbols
        is_own: the case's own inputs, which its launcher has to take
    """

    values: tuple[Any, ...]
    dtype: torch.dtype | None
    layout: Layout | None = None
    laid_out: int = -1
    sizes: Sizes | None = None
    is_own: bool = False

    @property
    def specs(self) -> list[TensorSpec]:
        return [value for value in self.values if isinstance(value, TensorSpec)]

    @property
    def elements(self) -> int:
        return sum(torch.Size(spec.shape).numel() for spec in self.specs)

    @property
    def inputs(self) -> str:
        """As a text that `--shapes` takes."""
        return ",".join(str(spec) if spec.limit is None else f"{spec}<{spec.limit}" for spec in self.specs)

    def with_dtype(self, dtype: torch.dtype | None) -> Cell:
        """The same run with all floating-point inputs of one dtype."""
        if dtype is None or self.dtype is None:
            return self
        values = tuple(replace(each, dtype=dtype) if _is_float(each) else each for each in self.values)
        return replace(self, values=values, dtype=dtype, is_own=self.is_own and values == self.values)

    def layouts(self) -> Iterator[Cell]:
        """The same run with each layout of each input."""
        for index, spec in enumerate(self.values):
            if isinstance(spec, TensorSpec):
                for layout in LAYOUTS:
                    if layout.applies(spec.shape):
                        yield replace(self, layout=layout, laid_out=index, is_own=False)


def _is_float(value: Any) -> bool:
    return isinstance(value, TensorSpec) and value.dtype.is_floating_point


def own_cell(case: Case) -> Cell:
    """The run of the case's own inputs."""
    values = tuple(replace(v, strides=None) if isinstance(v, TensorSpec) else v for v in case.specs())
    symbols = symbols_of(values) if isinstance(case.inputs, str) else None
    return Cell(values, _float_dtype(values), sizes=symbols.own if symbols else None, is_own=True)


def _float_dtype(values: Sequence[Any]) -> torch.dtype | None:
    return next((value.dtype for value in values if _is_float(value)), None)


def symbols_of(values: Sequence[Any]) -> Symbols:
    """Which sizes of these inputs vary together."""
    specs = [value for value in values if isinstance(value, TensorSpec)]
    return Symbols(tuple(spec.shape for spec in specs), tuple(spec.limit for spec in specs))


def with_sizes(own: Cell, sizes: Sizes) -> Cell:
    """The case's own run with other sizes."""
    symbols = symbols_of(own.values)
    changed = iter(zip(symbols.with_sizes(sizes), symbols.limits_with(sizes), strict=True))
    values: list[Any] = []
    for value in own.values:
        if isinstance(value, TensorSpec):
            shape, limit = next(changed)
            value = replace(value, shape=shape, limit=limit)
        values.append(value)
    return replace(own, values=tuple(values), sizes=sizes, is_own=tuple(values) == own.values)


def parse_shapes(text: str, own: Cell) -> list[Cell]:
    """The runs that `--shapes` asks for.

    A limit of integers that the text does not give follows the size that it equals in the case.

    Raises:  InputError: for a text that is none of the forms, or does not fit the case's inputs
    """
    items = [item.strip() for item in text.split(";") if item.strip()]
    if not items:
        raise InputError("no shapes", where="--shapes", expected=SHAPES_FORM)
    return [_given(item, own) for item in items]


def _given(item: str, own: Cell) -> Cell:
    if _SIZES_ALONE.fullmatch(item):
        return with_sizes(own, _sizes_of_first(item, own))
    try:
        given = parse_inputs(_WITHOUT_DTYPE.sub(r"\1f32[", item))
    except InputError as error:
        raise InputError(f"cannot read {item!r}", where="--shapes", expected=SHAPES_FORM) from error
    specs = own.specs
    if len(given) != len(specs) or any(len(a.shape) != len(b.shape) for a, b in zip(given, specs, strict=True)):
        raise InputError(
            f"{item!r}", where="--shapes", expected=f"{len(specs)} inputs of the case's ranks, as {own.inputs}"
        )
    has_dtypes = not _WITHOUT_DTYPE.search(item)
    sizes = {a: b for old, new in zip(specs, given, strict=True) for a, b in zip(old.shape, new.shape, strict=True)}
    return _filled(own, given, sizes, has_dtypes)


def _filled(own: Cell, given: Sequence[TensorSpec], sizes: Sizes, has_dtypes: bool) -> Cell:
    """The case's inputs with given shapes, and dtypes where the text has them."""
    left = iter(given)
    values: list[Any] = []
    for value in own.values:
        if isinstance(value, TensorSpec):
            new = next(left)
            limit = new.limit if new.limit is not None or value.limit is None else sizes.get(value.limit, value.limit)
            value = replace(value, shape=new.shape, dtype=new.dtype if has_dtypes else value.dtype, limit=limit)
        values.append(value)
    is_ours = own.sizes is not None and symbols_of(own.values).with_sizes(sizes) == tuple(v.shape for v in given)
    return Cell(tuple(values), _float_dtype(values), sizes=sizes if is_ours else None, is_own=False)


def _sizes_of_first(item: str, own: Cell) -> Sizes:
    """What the symbols are when the first input has these sizes; the others keep theirs."""
    wanted = [int(size) for size in item.split(",")]
    first = own.specs[0].shape if own.specs else ()
    sizes = dict(zip(first, wanted, strict=False))
    is_clear = own.sizes is not None and len(wanted) == len(first) and [sizes[size] for size in first] == wanted
    if not is_clear or any(size == 1 != sizes[size] for size in first):
        raise InputError(
            f"{item!r} does not say what the inputs {own.inputs} become", where="--shapes", expected=SHAPES_FORM
        )
    return {**(own.sizes or {}), **{size: value for size, value in sizes.items() if size > 1}}


def parse_dtypes(text: str) -> list[torch.dtype]:
    """The floating-point dtypes that `--dtypes` names.

    Raises:  InputError: for an unknown dtype, or one that is no floating-point dtype
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    floats = {name: dtype for name, dtype in DTYPES.items() if dtype.is_floating_point}
    for name in names:
        if name not in floats:
            raise InputError(f"unknown dtype {name!r}", where="--dtypes", expected=f"some of {', '.join(floats)}")
    if not names:
        raise InputError("no dtypes", where="--dtypes", expected=f"some of {', '.join(floats)}")
    return [floats[name] for name in dict.fromkeys(names)]


def dtypes_of(own: Cell) -> list[torch.dtype | None]:
    """The case's own dtype first, then the others that its floating-point inputs are given."""
    if own.dtype is None or own.dtype.itemsize == 1:
        return [own.dtype]
    return [own.dtype, *(dtype for dtype in VARIED_DTYPES if dtype != own.dtype)]


def make_tensors(case: Case, cell: Cell, seed: int) -> list[Any]:
    """The inputs of a run as contiguous CPU tensors, one laid out as the run says.

    A case whose inputs come from a function keeps that function's values where shapes are its own.
    """
    if callable(case.inputs):
        made = case.make_inputs(seed)
        pairs = zip(made, cell.values, strict=True)
        values = made if cell.is_own else [_as_specified(old, spec, seed) for old, spec in pairs]
    else:
        values = real_inputs(cell.values, seed)
    if cell.layout is not None:
        values[cell.laid_out] = cell.layout.lay_out(values[cell.laid_out])
    return values


def _as_specified(made: Any, spec: Any, seed: int) -> Any:
    if not isinstance(spec, TensorSpec):
        return made
    if tuple(made.shape) == spec.shape:
        return made.to(spec.dtype).contiguous()
    return real_inputs([spec], seed)[0]
