"""cf: asserts; branches are terminators and run in engine/frame.py."""

from __future__ import annotations

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.rules.tt_debug import check_assertion
from tilesight.engine.values import Array
from tilesight.ir.module import Operation


@frame_rule("cf.assert")
def assert_condition(frame: Frame, operation: Operation, condition: Array) -> None:
    check_assertion(frame, operation, condition, str(operation.attributes.get("msg", "")))
