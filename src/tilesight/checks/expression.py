"""An operation as its author wrote it: `pid * BLOCK`, with the names that TTIR has kept."""

from __future__ import annotations

import re

from tilesight.checks.place import variable_of
from tilesight.checks.slices import flow_of
from tilesight.ir.module import DenseElements, Module, Operation, Value
from tilesight.ir.types import item_bits

SYMBOLS = {
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.shli": "<<",
    "arith.divsi": "//",
    "arith.remsi": "%",
    "arith.andi": "&",
    "arith.ori": "|",
}
SHAPED = frozenset(
    {"arith.extsi", "arith.extui", "arith.index_cast"}
    | {f"tt.{name}" for name in ("splat", "broadcast", "expand_dims", "reshape", "trans")}
)
DEEPEST = 2
SHOWN = "shown"
"""Attribute of an operation that stands for others: how they were written."""


def describe(operation: Operation, module: Module) -> str:
    """The operation as an expression; a cast to a narrower type as `x.to(tl.int32)`."""
    if SHOWN in operation.attributes:
        return str(operation.attributes[SHOWN])
    return _Writer(operation, module).operation(operation, 0)


def describe_operand(operation: Operation, place: int, module: Module) -> str:
    """One operand as its author wrote it; empty where that would leave something out."""
    written = _Writer(operation, module).value(operation.operands[place], 1)
    return "" if "…" in written else written


def castable(operation: Operation, module: Module) -> str:
    """The operand that its author would cast: one with a name or a program id rather than a number; empty for none."""
    if SHOWN in operation.attributes:
        return ""
    writer = _Writer(operation, module)
    written = [writer.value(value, DEEPEST) for value in operation.operands]
    ids = [text for text in written if text.startswith("tl.program_id")]
    names = [text for text in written if text.isidentifier()]
    return next(iter(names + ids), "")


class _Writer:
    """Writes values with the names they have, except those that are parts of the statement itself.

    Triton names every part of `offsets = pid * BLOCK + …` after `offsets`.
    """

    def __init__(self, operation: Operation, module: Module) -> None:
        self._definitions = flow_of(module).definitions
        location = operation.location
        self._target = variable_of(operation.results[0])
        self._line = location.user_frame.line
        self._calls = {frame.line for frame in (location, *location.callers)} - {self._line}

    def operation(self, operation: Operation, depth: int) -> str:
        if operation.name == "arith.trunci":
            return f"{self.value(operation.operands[0], depth + 1)}.to(tl.int{item_bits(operation.results[0].type)})"
        left, right = (self.value(value, depth + 1) for value in operation.operands)
        return f"{left} {SYMBOLS[operation.name]} {right}"

    def value(self, value: Value, depth: int) -> str:
        operation = self._definitions.get(value)
        while operation is not None and operation.name in SHAPED:
            value = operation.operands[0]
            operation = self._definitions.get(value)
        if operation is None:
            return variable_of(value) or self._unnumbered(value.name)
        if operation.name == "arith.constant":
            return _number(operation)
        name = variable_of(value)
        if name and not self._is_part(name, operation.location.user_frame.line):
            return name
        if operation.name == "tt.get_program_id":
            return f"tl.program_id({operation.attributes['axis']})"
        if operation.name == "tt.make_range":
            return f"tl.arange({operation.attributes['start']}, {operation.attributes['end']})"
        if operation.name in SYMBOLS and depth <= DEEPEST:
            return f"({self.operation(operation, depth)})"
        return "…"

    def _is_part(self, name: str, line: int) -> bool:
        """Whether a name is only that of the statement, or of one that calls the function it is in."""
        return line in self._calls or (name == self._target and line == self._line)

    def _unnumbered(self, name: str) -> str:
        """A block argument's name without the number by which TTIR tells it from others of one variable."""
        base = re.sub(r"_\d+$", "", name)
        return base if any(variable_of(value) == base for value in self._definitions) else name


def _number(operation: Operation) -> str:
    held = operation.attributes["value"]
    return str(held.values[0]) if isinstance(held, DenseElements) else str(held)
