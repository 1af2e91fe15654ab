"""Steps that a generated wrapper does in plain torch, such as the sum of a workspace that a kernel has filled.

`buf4 = workspace_0[0 * (1024) * (512) : (0 + 1) * (1024) * (512)].view(1024, 512).sum(dim=0).view([512])` follows a
kernel that reduces rows and columns at once. Seen on torch 2.13.0 and 2.14.1, and on 2.11.0 without the last view.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilesight.capture.inductor.sizes import parse_optional_size, parse_optional_sizes

_MOVES_NOTHING = {"view", "reshape", "t", "transpose", "permute", "unsqueeze", "squeeze", "expand"}


@dataclass(frozen=True)
class TensorStep:
    """One operator on (a run of) a flat buffer.

    Args:
        operator: its method's name, such as `sum`
        source: the buffer it reads
        elements: how many of its elements; None where that is not known
        shape: of the result; None where it is not known
    """

    operator: str
    source: str
    elements: int | None
    shape: tuple[int, ...] | None


def parse_optional_step(value: ast.expr, sizes: Mapping[str, int]) -> TensorStep | None:
    """The step that an expression is; None where it calls nothing that moves bytes, or is of another form."""
    methods: list[ast.Call] = []
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        methods.append(value)
        value = value.func.value
    working = [call for call in methods if _method(call) not in _MOVES_NOTHING]
    match value:
        case ast.Subscript(value=ast.Name(id=source), slice=ast.Slice(lower=lower, upper=upper, step=None)) if (
            len(working) == 1
        ):
            return TensorStep(_method(working[0]), source, _length(lower, upper, sizes), _shape(methods, sizes))
        case _:
            return None


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _length(lower: ast.expr | None, upper: ast.expr | None, sizes: Mapping[str, int]) -> int | None:
    start = 0 if lower is None else parse_optional_size(lower, sizes)
    end = None if upper is None else parse_optional_size(upper, sizes)
    return None if start is None or end is None else end - start


def _shape(methods: Sequence[ast.Call], sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """What the calls, the last one first, give their result: views say it, and a sum leaves an axis out."""
    shape: tuple[int, ...] | None = None
    for call in reversed(methods):
        match call:
            case ast.Call(func=ast.Attribute(attr="view"), args=given):
                shape = _viewed(given, sizes)
            case ast.Call(
                func=ast.Attribute(attr="sum"), args=[], keywords=[ast.keyword("dim", ast.Constant(int(dim)))]
            ):
                shape = None if shape is None else (*shape[:dim], *shape[dim:][1:])
            case _:
                shape = None
    return shape


def _viewed(given: Sequence[ast.expr], sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    only = given[0] if len(given) == 1 else ast.Tuple(elts=list(given))
    return parse_optional_sizes(only if isinstance(only, ast.Tuple | ast.List) else ast.Tuple(elts=[only]), sizes)
