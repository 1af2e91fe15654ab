"""Slices of buffers that a generated wrapper gives its calls: `reinterpret_tensor(buf, shape, strides, offset)`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tilesight.capture.inductor.sizes import parse_optional_size, parse_optional_sizes
from tilesight.ledger.slices import slice_of

View = tuple[tuple[int, ...], tuple[int, ...], int]
"""Shape, strides and offset in elements."""

Parts = dict[str, list[View | None]]
"""By buffer: the views of it that a call is given; None for all of it, or for a view that is not known."""


class Slices:
    """The names of a wrapper that stand for a slice of a buffer."""

    def __init__(self) -> None:
        self._views: dict[str, View | None] = {}

    def name(self, name: str, value: ast.expr, sizes: Mapping[str, int]) -> None:
        """`name` is from now on what the expression gives."""
        self._views[name] = self._view(value, sizes)

    def note(self, parts: Parts, buffer: str, operand: ast.expr, sizes: Mapping[str, int]) -> None:
        """A call is given this operand, which is (a slice of) the buffer; nothing where that is empty."""
        if buffer:
            parts.setdefault(buffer, []).append(self._view(operand, sizes))

    def _view(self, operand: ast.expr, sizes: Mapping[str, int]) -> View | None:
        match operand:
            case ast.Name(id=name):
                return self._views.get(name)
            case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[ast.Name(id=other), shape, strides, offset]):
                extents, steps = parse_optional_sizes(shape, sizes), parse_optional_sizes(strides, sizes)
                first = parse_optional_size(offset, sizes)
                before = self._views.get(other, ((), (), 0))
                if extents is None or steps is None or first is None or before is None:
                    return None
                return extents, steps, before[2] + first
            case _:
                return None


def slices_bytes(views: list[View | None], item_bytes: int) -> int | None:
    """Bytes of the different slices together; None where one of them is not known."""
    known = [view for view in views if view is not None]
    if len(known) < len(views):
        return None
    return sum(each.bytes for each in {slice_of(*view, item_bytes) for view in known})
