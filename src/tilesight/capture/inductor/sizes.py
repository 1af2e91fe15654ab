"""Sizes in a generated wrapper: numbers, or arithmetic over the symbols of a dynamic shape."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"max": max, "min": min, "abs": abs, "int": int}


def parse_optional_size(expression: ast.expr, values: Mapping[str, int]) -> int | None:
    """The whole number that an expression stands for; None where a name in it has no value, or it is no size."""
    match expression:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return values.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = parse_optional_size(operand, values)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _applied(_BINARY[type(op)], [left, right], values)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            return _applied(_FUNCTIONS[name], args, values)
        case _:
            return None


def parse_optional_sizes(expression: ast.expr, values: Mapping[str, int]) -> tuple[int, ...] | None:
    """The sizes in a tuple or list display; None where one of them is unknown."""
    if not isinstance(expression, ast.Tuple | ast.List):
        return None
    sizes = [parse_optional_size(element, values) for element in expression.elts]
    return tuple(size for size in sizes if size is not None) if None not in sizes else None


def sizes_of_inputs(tree: ast.Module) -> dict[str, int]:
    """Whole numbers by name, as the wrapper's own benchmark passes them (`arg0_1 = 100`): those of this call."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() as value)):
                if not isinstance(value, bool):
                    found[name] = value
            case _:
                continue
    return found


def _applied(function: Callable[..., Any], operands: list[ast.expr], values: Mapping[str, int]) -> int | None:
    numbers: list[Any] = [parse_optional_size(operand, values) for operand in operands]
    if None in numbers:
        return None
    try:
        return int(function(*numbers))
    except ZeroDivisionError:
        return None
