"""Kernels of Inductor's C++ back end, as the generated wrapper holds them. Seen on torch 2.13.0.

`name = async_compile.cpp_pybinding([types], r'''source''')`, called as `name(buffers, sizes)`.
"""

from __future__ import annotations

import ast
import re

from tilesight.capture.inductor.graph import GeneratedKernel

CATEGORY = "cpp"
_PARAMETER = re.compile(r"(\w+)\s*$")
_KERNEL = re.compile(r'extern "C"[^(]*\(([^)]*)\)')


def parse_optional_cpp_kernel(statement: ast.stmt) -> GeneratedKernel | None:
    """The kernel that a statement defines, its signature from the C++ types; None where it defines none."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id="async_compile"), attr="cpp_pybinding"),
                args=[ast.List(elts=types), ast.Constant(value=str(source)), *_],
            ),
        ):
            texts = [str(each.value) for each in types if isinstance(each, ast.Constant)]
            signature = dict(zip(_parameters(source, len(texts)), map(_type, texts), strict=True))
            return GeneratedKernel(name, source.strip("\n") + "\n", CATEGORY, signature, ())
        case _:
            return None


def _parameters(source: str, count: int) -> list[str]:
    """The names of the C++ function's parameters; numbered where they cannot be read."""
    match = _KERNEL.search(source)
    names = [_PARAMETER.search(part.strip()) for part in match.group(1).split(",")] if match else []
    found = [name.group(1) for name in names if name]
    return found if len(found) == count else [f"parameter{number}" for number in range(count)]


def _type(text: str) -> str:
    """`*float` for `const float*`."""
    plain = text.replace("const ", "").strip()
    return f"*{plain.rstrip('* ')}" if plain.endswith("*") else plain
