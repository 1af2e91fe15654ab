"""FX nodes as plain records: operator, shapes, bytes and the user's line."""

from __future__ import annotations

import linecache
import operator
import re
from pathlib import Path
from typing import Any

import torch

from tilesight.capture.inductor.graph import Node
from tilesight.capture.tensors import dtype_name

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in')
_LIBRARY = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))


def read_nodes(graph: Any) -> tuple[Node, ...]:
    """The nodes of a torch.fx Graph, in order."""
    return tuple(_read_node(node) for node in graph.nodes)


def output_nodes(graph: Any) -> tuple[str, ...]:
    """The name of the node behind each of a graph's outputs; empty for a number or None."""
    returned = next(node.args[0] for node in reversed(graph.nodes) if node.op == "output")
    each = returned if isinstance(returned, tuple | list) else (returned,)
    return tuple(str(getattr(value, "name", "")) for value in each)


def _read_node(node: Any) -> Node:
    tensors = _tensors(node.meta.get("val", node.meta.get("example_value")))
    first = tensors[0] if tensors else None
    source, code = user_line(node.meta.get("stack_trace") or "")
    return Node(
        name=node.name,
        op=node.op,
        target=_target_name(node.target),
        inputs=tuple(used.name for used in node.all_input_nodes),
        shape=tuple(_size(s) for s in first.shape) if first is not None else (),
        dtype=dtype_name(first.dtype) if first is not None else "",
        bytes=_total_bytes(tensors),
        is_view=_is_view(node),
        source=source,
        code=code,
        origin=_origin(node),
        item=node.args[1] if node.target is operator.getitem and isinstance(node.args[1], int) else None,
    )


def _origin(node: Any) -> str:
    """The Dynamo node behind an ATen one, a backward one too; the first name of a Dynamo node."""
    sources = node.meta.get("from_node") or ()
    while sources and sources[-1].from_node:
        sources = sources[-1].from_node
    if sources:
        return str(sources[-1].name)
    stack = node.meta.get("source_fn_stack") or node.meta.get("fwd_source_fn_stack") or ()
    return str(stack[-1][0]) if stack else ""


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _size(size: Any) -> int | str:
    return size if isinstance(size, int) else str(size)


def _total_bytes(tensors: list[Any]) -> int | None:
    total = 0
    for tensor in tensors:
        if not all(isinstance(size, int) for size in tensor.shape):
            return None
        total += tensor.numel() * tensor.element_size()
    return total


def _target_name(target: Any) -> str:
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return getattr(target, "__name__", str(target))


def _is_view(node: Any) -> bool:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        returns = target._schema.returns
        return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    return getattr(target, "__name__", "") == "getitem"


def user_line(stack_trace: str) -> tuple[str, str]:
    """The innermost frame of a stack trace that lies outside torch: (`file:line`, its text)."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(stack_trace)]
    own = [frame for frame in frames if not is_library_file(frame[0])]
    if not own:
        return "", ""
    file, line = own[-1]
    return f"{file}:{line}", linecache.getline(file, line).strip()


def is_library_file(file: str) -> bool:
    """The file belongs to torch or to Tilesight, not to the user."""
    return file.startswith(_LIBRARY)


def input_sources(graph: Any) -> tuple[str, ...]:
    """Where Dynamo read each placeholder, as an expression over L (locals) and G (globals)."""
    return tuple(_source_name(node) for node in graph.nodes if node.op == "placeholder")


def _source_name(node: Any) -> str:
    argument = node.meta.get("grapharg")
    source = getattr(node, "_dynamo_source", None) or getattr(argument, "source", None)
    if source is None:
        return ""
    name = source.name
    return str(name() if callable(name) else name)
