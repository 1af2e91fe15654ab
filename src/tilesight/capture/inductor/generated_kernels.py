"""The kernels in Inductor's generated wrapper: `name = async_compile.triton('name', '''source''', ...)`, or C++ ones.

Seen on torch 2.11.0 to 2.14.1.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from tilesight.capture.inductor.cpp_kernels import parse_optional_cpp_kernel
from tilesight.capture.inductor.graph import GeneratedKernel


def kernels_in(tree: ast.Module) -> Iterator[GeneratedKernel]:
    """The kernels that a wrapper defines, in its order."""
    for statement in tree.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="async_compile"), attr="triton"),
                    args=[_, ast.Constant(value=str(source)), *_],
                ),
            ):
                yield _read_kernel(name, source)
            case _:
                kernel = parse_optional_cpp_kernel(statement)
                if kernel is not None:
                    yield kernel


def _read_kernel(name: str, source: str) -> GeneratedKernel:
    category, keywords = _decorator(ast.parse(source))
    meta = keywords.get("inductor_meta")
    triton_meta = keywords.get("triton_meta")
    return GeneratedKernel(
        name=name,
        source=source.strip("\n") + "\n",
        category=category,
        signature={str(k): str(v) for k, v in _literal_entry(triton_meta, "signature", {}).items()},
        mutated=tuple(str(n) for n in _literal_entry(meta, "mutated_arg_names", [])),
    )


def _decorator(tree: ast.Module) -> tuple[str, dict[str, ast.expr]]:
    """The heuristics decorator's name (pointwise, reduction, …) and its keyword arguments."""
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            for decorator in statement.decorator_list:
                if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute):
                    return decorator.func.attr, {k.arg: k.value for k in decorator.keywords if k.arg}
    return "", {}


def _literal_entry(expression: ast.expr | None, key: str, default: Any) -> Any:
    """The literal under `key` of a dict display, which may hold calls elsewhere."""
    if isinstance(expression, ast.Dict):
        for k, value in zip(expression.keys, expression.values, strict=True):
            if isinstance(k, ast.Constant) and k.value == key:
                return ast.literal_eval(value)
    return default


def is_loaded(source: str, parameter: str) -> bool:
    """Whether a kernel asks what stands there; an atomic does."""
    return re.search(rf"tl\.(load|atomic_\w+)\({re.escape(parameter)}\b", source) is not None
