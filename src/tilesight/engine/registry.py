"""Which function executes which operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tilesight.errors import UnsupportedError
from tilesight.ir.module import Operation

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Rule:
    """How one operation is executed.

    Args:
        function: takes the operands' values; before them the frame and the operation, if `takes_frame`
        takes_frame: the rule reads attributes, types, programs or memory
        takes_lanes: the rule understands LaneSum; for others the sums are spread out first
    """

    function: Callable[..., Any]
    takes_frame: bool
    takes_lanes: bool


RULES: dict[str, Rule] = {}


def rule(*names: str, takes_lanes: bool = False) -> Callable[[Function], Function]:
    """Register a rule that needs nothing but the operands' values."""
    return _register(names, takes_frame=False, takes_lanes=takes_lanes)


def frame_rule(*names: str, takes_lanes: bool = False) -> Callable[[Function], Function]:
    """Register a rule that is handed the frame and the operation before the operands' values."""
    return _register(names, takes_frame=True, takes_lanes=takes_lanes)


def _register(names: tuple[str, ...], takes_frame: bool, takes_lanes: bool) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = Rule(function, takes_frame, takes_lanes)
        return function

    return register


def where_of(operation: Operation) -> str:
    """`softmax.py:14`: the kernel's own line, with the file's name alone."""
    frame = operation.location.kernel_frame
    return f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}" if frame.file else "unknown location"


def find_rule(operation: Operation) -> Rule:
    """The rule for an operation.

    Raises: UnsupportedError: when there is none, naming the user's line and the file to add it to
    """
    found = RULES.get(operation.name)
    if found is None:
        raise unsupported(operation, f"no execution rule for {operation.name}")
    return found


def unsupported(operation: Operation, got: str) -> UnsupportedError:
    """The error for an operation, or a form of it, that has no rule."""
    return UnsupportedError(
        got, where=where_of(operation), next_step=f"rules live in engine/rules/{operation.dialect}.py"
    )
