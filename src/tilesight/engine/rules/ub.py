"""ub: undefined values."""

from __future__ import annotations

from typing import Any

from tilesight.engine.access import undefined_value
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.values import UNKNOWN_ROOT, Pointer, dtype_of
from tilesight.ir.module import Operation
from tilesight.ir.types import PointerType, block_shape, element_type


@frame_rule("ub.poison")
def poison(frame: Frame, operation: Operation) -> Any:
    """A value that must not be used; it holds what `undefined` says."""
    type_ = operation.results[0].type
    array = undefined_value(frame.chunk, dtype_of(type_)).reshape((1,) * (1 + len(block_shape(type_))))
    return Pointer(array, UNKNOWN_ROOT) if isinstance(element_type(type_), PointerType) else array
