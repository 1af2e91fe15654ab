"""The graph that Inductor writes above each kernel, as comments: its ATen nodes with their arguments.

`#   %add : Tensor "f32[8][1]cuda:0"[num_users=1] = call_function[target=…](args = (%x, 1), kwargs = {})`.
Seen on torch 2.13.0.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tilesight.capture.inductor.graph import Node
from tilesight.errors import UnsupportedError

_NODE = re.compile(
    r"^#\s+%(?P<name>\w+) : (?P<type>.*?)\s*= (?P<op>PlaceHolder|call_function)\[target=(?P<target>[\w.]+)\]"
    r"(?:\(args = (?P<args>.*), kwargs = (?P<kwargs>\{.*\})\))?$"
)
_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(")
_TENSOR = re.compile(r'"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]')
_DEVICE = re.compile(r"\b(?:cuda|cpu)(?::\d+)?\b(?!\()")
_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


@dataclass(frozen=True)
class FragmentNode:
    """One line of a fragment; `call` is Python with the nodes' names, such as `torch.ops.aten.relu.default(mm)`."""

    name: str
    target: str
    call: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Fragment:
    """What one kernel computes.

    Args:
        placeholders: names of what it reads, in the order of the kernel's inputs
        nodes: its operators in order
        outputs: names of what it stores, in the order of the kernel's outputs
        types: (dtype, shape) of each tensor that it reads, by name
    """

    placeholders: tuple[str, ...]
    nodes: tuple[FragmentNode, ...]
    outputs: tuple[str, ...]
    types: dict[str, tuple[str, tuple[int | str, ...]]] = field(
        default_factory=dict[str, tuple[str, tuple[int | str, ...]]]
    )


def read_fragments(code: str) -> dict[str, Fragment]:
    """The fragments of a generated wrapper, by kernel; kernels without one that can be read are left out."""
    found: dict[str, Fragment] = {}
    lines: list[str] | None = None
    for line in code.splitlines():
        kernel = _KERNEL.match(line)
        if line.startswith("# Graph fragment:"):
            lines = []
        elif kernel is not None:
            if lines and (fragment := _parse_optional_fragment(lines)) is not None:
                found.setdefault(kernel.group(1), fragment)
            lines = None
        elif lines is not None and line.startswith("#"):
            lines.append(line)
    return found


def nodes_of(fragments: Iterable[Fragment]) -> tuple[Node, ...]:
    """The fragments' operators as graph nodes, each once; there is no more of the graph in generated code."""
    found: dict[str, Node] = {}
    for fragment in fragments:
        for node in fragment.nodes:
            names = _names_in(node.call)
            target = node.target.removeprefix("torch.ops.")
            made = Node(node.name, "call_function", target, names, node.shape, node.dtype)
            found.setdefault(node.name, made)
    return tuple(found.values())


def type_in(annotation: str) -> tuple[str, tuple[int | str, ...]]:
    """(dtype, shape) in an annotation such as `Tensor "f32[64, 48][48, 1]cuda:0"`; empty where there is none."""
    match = _TENSOR.search(annotation)
    if match is None:
        return "", ()
    sizes = [size.strip() for size in match.group("shape").split(",") if size.strip()]
    shape = tuple(int(size) if size.isdecimal() else size for size in sizes)
    return _DTYPES.get(match.group("dtype"), match.group("dtype")), shape


def _parse_optional_fragment(lines: list[str]) -> Fragment | None:
    reads: dict[str, tuple[str, tuple[int | str, ...]]] = {}
    nodes: list[FragmentNode] = []
    outputs: tuple[str, ...] = ()
    for line in lines:
        if line.startswith("#   return "):
            outputs = tuple(name.strip().removeprefix("%") for name in line.removeprefix("#   return ").split(","))
            continue
        match = _NODE.match(line)
        if match is None:
            return None
        if match.group("op") == "PlaceHolder":
            reads[match.group("name")] = type_in(match.group("type"))
            continue
        try:
            call = _as_python(match.group("target"), match.group("args") or "()", match.group("kwargs") or "{}")
        except (SyntaxError, UnsupportedError):
            return None
        dtype, shape = type_in(match.group("type"))
        nodes.append(FragmentNode(match.group("name"), match.group("target"), call, dtype, shape))
    made = {node.name for node in nodes}
    read = tuple(name for name in reads if name not in made)
    return Fragment(read, tuple(nodes), outputs, reads) if nodes else None


def _as_python(target: str, args: str, kwargs: str) -> str:
    """The call as Python text; a device becomes the name `device`.

    Raises: UnsupportedError: for arguments of another form
    """
    texts = [_DEVICE.sub("device", text.replace("%", "")) for text in (args, re.sub(r"\bdevice:", "device_:", kwargs))]
    positional, named = (ast.parse(text, mode="eval").body for text in texts)
    if not isinstance(positional, ast.Tuple) or not isinstance(named, ast.Dict):
        raise UnsupportedError(f"arguments of another form: {args}")
    parts = [ast.unparse(argument) for argument in positional.elts]
    for key, value in zip(named.keys, named.values, strict=True):
        if not isinstance(key, ast.Name):
            raise UnsupportedError(f"arguments of another form: {kwargs}")
        parts.append(f"{'device' if key.id == 'device_' else key.id}={ast.unparse(value)}")
    return f"{target}({', '.join(parts)})"


def _names_in(call: str) -> tuple[str, ...]:
    """Names of the nodes among a call's arguments."""
    tree = ast.parse(call, mode="eval").body
    assert isinstance(tree, ast.Call)
    operands = [*tree.args, *(keyword.value for keyword in tree.keywords)]
    inside = [node for operand in operands for node in ast.walk(operand)]
    parts = {id(node.value) for node in inside if isinstance(node, ast.Attribute)}
    names = [node.id for node in inside if isinstance(node, ast.Name) and id(node) not in parts]
    return tuple(dict.fromkeys(name for name in names if name not in ("device", "inf", "nan")))
