"""FX graphs as torch prints them (`print_readable`), read back: in TORCH_TRACE logs and TORCH_COMPILE_DEBUG folders.

The text is Python and is parsed, never run. Nodes follow the comment `# File: file.py:3 in f, code: …` that tells the
user's line. Seen on torch 2.13.0.
"""

from __future__ import annotations

import ast
import re
from math import prod
from pathlib import Path

from tilesight.capture.inductor.fragments import type_in
from tilesight.capture.inductor.graph import Node

_PLACE = re.compile(r"#\s*(?:File: )?(?P<file>[^\s#:][^#:]*):(?P<line>\d+) in [^,]*?, code: (?P<code>.*)$")
_BYTES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4,
          "int64": 8, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1}  # fmt: skip


def read_graph(text: str) -> tuple[Node, ...]:
    """The nodes of a printed graph; empty where the text holds none, or was cut off inside.

    Names are those of the graph, views are not told apart.
    """
    text = text.replace("class <lambda>(", "class GraphModule(", 1)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    forward = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
    if forward is None:
        return ()
    lines = text.splitlines()
    known: dict[str, str] = {argument.arg: argument.arg for argument in forward.args.args}
    nodes = [_placeholder(argument) for argument in forward.args.args if argument.arg != "self"]
    for statement in forward.body:
        node = _node(statement, lines, known)
        if node is not None:
            nodes.append(node)
    return tuple(nodes)


def read_graph_beside(path: Path) -> tuple[Node, ...]:
    """The ATen graph after Inductor's passes, from the file that TORCH_COMPILE_DEBUG writes beside the code."""
    beside = path.with_name("fx_graph_transformed.py")
    if path.name != "output_code.py" or not beside.is_file():
        return ()
    return read_graph(beside.read_text(encoding="utf-8", errors="replace"))


def _placeholder(argument: ast.arg) -> Node:
    dtype, shape = _type(argument.annotation)
    return Node(argument.arg, "placeholder", argument.arg, (), shape, dtype, _bytes(dtype, shape))


def _node(statement: ast.stmt, lines: list[str], known: dict[str, str]) -> Node | None:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as value):
            dtype, shape = _type(annotation)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            dtype, shape = "", ()
        case ast.Return(value=ast.expr() as value):
            return Node("output", "output", "output", _inputs(value, known))
        case _:
            return None
    if isinstance(value, ast.Constant) and value.value is None:  # `x = None`: freed
        return None
    if isinstance(value, ast.Name) and value.id in known:  # a placeholder under its graph's name
        known[name] = known[value.id]
        return None
    inputs = _inputs(value, known)
    known[name] = name
    source, code = _place(lines, statement.lineno)
    target = _target(value)
    return Node(name, "call_function", target, inputs, shape, dtype, _bytes(dtype, shape), False, source, code)


def _target(value: ast.expr) -> str:
    match value:
        case ast.Call(func=function):
            return ast.unparse(function).removeprefix("torch.ops.").removeprefix("torch.")
        case ast.BinOp(op=op) | ast.UnaryOp(op=op):
            return type(op).__name__.lower()
        case ast.Compare(ops=[op]):
            return type(op).__name__.lower()
        case ast.Subscript():
            return "getitem"
        case _:
            return ast.unparse(value)


def _inputs(value: ast.expr, known: dict[str, str]) -> tuple[str, ...]:
    names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name) and node.id in known]
    return tuple(dict.fromkeys(known[name] for name in names if known[name] != "self"))


def _type(annotation: ast.expr | None) -> tuple[str, tuple[int | str, ...]]:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return type_in(f'"{annotation.value}"')
    return "", ()


def _bytes(dtype: str, shape: tuple[int | str, ...]) -> int | None:
    whole = [size for size in shape if isinstance(size, int)]
    return prod(whole) * _BYTES[dtype] if dtype in _BYTES and len(whole) == len(shape) else None


def _place(lines: list[str], number: int) -> tuple[str, str]:
    """(file:line, text) of the comment above a statement; the nodes that share it follow each other."""
    for line in reversed(lines[: number - 1]):
        stripped = line.strip()
        if stripped.startswith("#"):
            match = _PLACE.match(stripped)
            return (f"{match.group('file')}:{match.group('line')}", match.group("code").strip()) if match else ("", "")
    return "", ""
