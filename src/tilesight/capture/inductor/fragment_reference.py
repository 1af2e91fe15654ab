"""What a kernel computes, in torch's own operators and float64: the reference that its numbers are held against.

It is made from the graph fragment that Inductor writes above each kernel. Which of the fragment's values a kernel
keeps in memory, and under which parameter, is told by dtype and size; where several readings fit, all are given, for
the caller to keep the one that the generated kernel agrees with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from math import inf, nan, prod
from typing import Any

import torch

from tilesight.capture.inductor.fragments import Fragment, FragmentNode
from tilesight.capture.inductor.standalone import Operand, StandaloneLaunch
from tilesight.errors import UnsupportedError

MOST_READINGS = 24
_OPERATOR = re.compile(r"torch\.ops\.(?:aten|prims)\.\w+\.\w+|operator\.getitem")
_FLOATS = re.compile(r"\btorch\.(?:float32|float16|bfloat16|float8_e4m3fn|float8_e5m2)\b")
_SOFTMAX = "torch.ops.prims.prepare_softmax_online.default"
_OUTSIDE = ("device", "inf", "nan", "torch")
_RESERVED = ("f64", "online_softmax", "tensors")


@dataclass(frozen=True)
class Reference:
    """Torch statements that compute a kernel's outputs.

    Args:
        reads: (operand's parameter, name in the statements) of what is read
        statements: Python lines, one an operator
        results: (operand's parameter, name in the statements) of what is written
    """

    reads: tuple[tuple[str, str], ...]
    statements: tuple[str, ...]
    results: tuple[tuple[str, str], ...]


def references(fragment: Fragment, launch: StandaloneLaunch, sizes: Mapping[str, int]) -> Iterator[Reference]:
    """The readings of a fragment that fit the kernel's operands, the most likely first; none where nothing fits.

    Args:
        sizes: what the symbols of a dynamic shape stand for
    """
    return islice(_references(fragment, launch, sizes), MOST_READINGS)


def _references(fragment: Fragment, launch: StandaloneLaunch, sizes: Mapping[str, int]) -> Iterator[Reference]:
    reader = _Reader(fragment, sizes)
    written = [each for each in launch.operands if _is_stored(each, launch.kernel.source)]
    read = [each for each in launch.operands if each.role != "out"]
    for chosen in reader.outputs_of(written):
        try:
            nodes, leaves = reader.needed(chosen)
        except UnsupportedError:
            continue
        for sources in reader.sources_of(leaves, read):
            for items in reader.items_of(leaves):
                yield reader.reference(written, chosen, nodes, sources, items)


def _is_stored(operand: Operand, source: str) -> bool:
    """A mutated tensor may come as two parameters, one to load and one to store."""
    return re.search(rf"tl\.(?:store|atomic_\w+)\({re.escape(operand.parameter)}\b", source) is not None


class _Reader:
    """One fragment, its names and what is known of each."""

    def __init__(self, fragment: Fragment, sizes: Mapping[str, int]) -> None:
        self._nodes = {node.name: node for node in fragment.nodes}
        self._fragment = fragment
        self._sizes = sizes
        self._types = {**fragment.types, **{node.name: (node.dtype, node.shape) for node in fragment.nodes}}
        self._tuples = [node for node in fragment.nodes if not node.dtype]

    def outputs_of(self, written: Sequence[Operand]) -> Iterator[tuple[str, ...]]:
        """One of the fragment's outputs for each operand: in the fragment's order, later ones first, then in any."""
        names = [name for name in dict.fromkeys(self._fragment.outputs) if name in self._nodes or self._is_item(name)]
        found: list[tuple[str, ...]] = []
        for is_ordered in (True, False):
            for chosen in islice(self._assigned(written, names, is_ordered), MOST_READINGS):
                if chosen not in found:
                    found.append(chosen)
                    yield chosen

    def _assigned(self, written: Sequence[Operand], names: list[str], is_ordered: bool) -> Iterator[tuple[str, ...]]:
        if not written:
            yield ()
            return
        *others, operand = written
        for place in reversed(range(len(names))):
            if self._fits(names[place], operand):
                keeps_order = is_ordered and operand.role == "out"
                left = names[:place] if keeps_order else names[:place] + names[place + 1 :]
                for chosen in self._assigned(others, left, is_ordered):
                    yield (*chosen, names[place])

    def _fits(self, name: str, operand: Operand) -> bool:
        if name not in self._types:
            return self._is_item(name)
        dtype, shape = self._types[name]
        return dtype == operand.dtype and self._elements(shape) == prod(operand.shape)

    def _may_be(self, name: str, operand: Operand) -> bool:
        return name not in self._types or self._fits(name, operand)

    def _elements(self, shape: tuple[int | str, ...]) -> int | None:
        sizes = [size if isinstance(size, int) else self._sizes.get(size) for size in shape]
        return None if None in sizes else prod(size or 0 for size in sizes)

    def needed(self, outputs: Sequence[str]) -> tuple[list[FragmentNode], list[str]]:
        """(operators behind the outputs in order, names that no operator makes).

        Raises: UnsupportedError: for a call that is more than an operator of torch
        """
        waiting, found, leaves = list(outputs), set[str](), list[str]()
        while waiting:
            name = waiting.pop()
            if name in found or name in leaves:
                continue
            if name not in self._nodes:
                leaves.append(name)
                waiting += [each.name for each in self._tuples] if self._is_item(name) else []
                continue
            found.add(name)
            waiting += operands_of(self._nodes[name].call)
        order = [node for node in self._fragment.nodes if node.name in found]
        return order, [name for name in self._fragment.types if name in leaves] + [
            name for name in leaves if name not in self._fragment.types
        ]

    def _is_item(self, name: str) -> bool:
        """A part of what an operator with several results returns, such as `getitem_1`, made here and not read."""
        if not name.startswith("getitem") or name in self._nodes or len(self._tuples) != 1:
            return False
        return name in self._fragment.outputs or name not in self._types

    def sources_of(self, leaves: Sequence[str], read: Sequence[Operand]) -> Iterator[dict[str, Operand]]:
        """The operand behind each leaf that comes from memory."""
        from_memory = [name for name in leaves if not self._is_item(name) and name not in self._sizes]
        named = {operand.buffer: operand for operand in read}
        found = {name: named[name] for name in from_memory if name in named and self._may_be(name, named[name])}
        if len(from_memory) > len(read) or any(name not in self._types for name in from_memory if name not in found):
            return
        rest = [name for name in from_memory if name not in found]
        others = [operand for operand in read if operand not in found.values()]
        for order in islice(permutations(others, len(rest)), MOST_READINGS * 8):
            if all(self._fits(name, operand) for name, operand in zip(rest, order, strict=True)):
                yield {**found, **dict(zip(rest, order, strict=True))}

    def items_of(self, leaves: Sequence[str]) -> Iterator[dict[str, int]]:
        """Which result each `getitem` is: by their numbers, else the other way round."""
        items = sorted((name for name in leaves if self._is_item(name)), key=lambda name: (len(name), name))
        if not items:
            yield {}
            return
        places = list(range(max(2, len(items))))
        for order in permutations(places, len(items)):
            yield dict(zip(items, order, strict=True))

    def reference(
        self,
        written: Sequence[Operand],
        outputs: Sequence[str],
        nodes: Sequence[FragmentNode],
        sources: Mapping[str, Operand],
        items: Mapping[str, int],
    ) -> Reference:
        lines = [f"{name} = {self._sizes[name]}" for name in self._sizes_in(nodes)]
        lines += [line for name, operand in sources.items() if (line := self._reshaped(name, operand))]
        for node in nodes:
            lines.append(f"{node.name} = {_widened(node.call)}")
            if node in self._tuples:
                lines += [f"{name} = {node.name}[{place}]" for name, place in items.items()]
        return Reference(
            tuple((operand.parameter, name) for name, operand in sources.items()),
            tuple(lines),
            tuple((operand.parameter, name) for operand, name in zip(written, outputs, strict=True)),
        )

    def _sizes_in(self, nodes: Sequence[FragmentNode]) -> list[str]:
        names = [name for node in nodes for name in operands_of(node.call)]
        return [name for name in dict.fromkeys(names) if name in self._sizes]

    def _reshaped(self, name: str, operand: Operand) -> str:
        shape = self._types.get(name, ("", operand.shape))[1]
        if shape == operand.shape or not all(isinstance(size, int) for size in shape):
            return ""
        return f"{name} = {name}.reshape({list(shape)})"


def evaluate(reference: Reference, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor] | None:
    """What the statements give for each written parameter, in float64; None where torch refuses them.

    Args:
        tensors: CPU tensors by parameter
    """
    scope: dict[str, Any] = {
        "torch": torch, "aten": torch.ops.aten, "prims": torch.ops.prims, "f64": torch.float64, "inf": inf, "nan": nan,
        "device": torch.device("cpu"), "online_softmax": _online_softmax,
    }  # fmt: skip
    for parameter, name in reference.reads:
        tensor = tensors[parameter]
        scope[name] = tensor.double() if tensor.dtype.is_floating_point else tensor.clone()
    try:
        with torch.no_grad():
            exec("\n".join(reference.statements), scope)  # operators of torch alone: see operands_of
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, NameError, NotImplementedError):
        return None
    found = {parameter: scope[name] for parameter, name in reference.results}
    return found if all(isinstance(value, torch.Tensor) for value in found.values()) else None


def _online_softmax(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As the exported file has it."""
    largest = x.amax(dim, keepdim=True)
    return largest, (x - largest).exp().sum(dim, keepdim=True)


def operands_of(call: str) -> list[str]:
    """Names of values that an operator's call reads.

    Raises: UnsupportedError: when the text is more than one operator of torch with plain arguments
    """
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call) or _OPERATOR.fullmatch(ast.unparse(tree.func)) is None:
        raise UnsupportedError(f"no operator of torch: {call}")
    names: list[str] = []
    for argument in (*tree.args, *(each.value for each in tree.keywords)):
        for node in _plain_parts(argument):
            if isinstance(node, ast.Name) and node.id not in _OUTSIDE:
                names.append(node.id)
    if any(name in _RESERVED for name in names):
        raise UnsupportedError(f"a name that the file needs: {call}")
    return names


def _plain_parts(argument: ast.expr) -> list[ast.AST]:
    """The argument's parts: constants, names, lists and constants of torch; nothing that runs."""
    parts = list(ast.walk(argument))
    plain = (ast.Constant, ast.Name, ast.List, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)
    for part in parts:
        if isinstance(part, ast.Attribute):
            if re.fullmatch(r"torch\.[a-z]\w*", ast.unparse(part)) is None:
                raise UnsupportedError(f"an argument of another form: {ast.unparse(argument)}")
        elif not isinstance(part, plain):
            raise UnsupportedError(f"an argument of another form: {ast.unparse(argument)}")
    return parts


def _widened(call: str) -> str:
    """The call with every floating dtype as float64; no rounding in between, as in the fused kernel."""
    wide = _FLOATS.sub("f64", call).replace(_SOFTMAX, "online_softmax")
    match = re.fullmatch(r"torch\.ops\.prims\.convert_element_type\.default\((\w+), ([\w.]+)\)", wide)
    item = re.fullmatch(r"operator\.getitem\((\w+), (\d+)\)", wide)
    if item:
        return f"{item[1]}[{item[2]}]"
    return f"{match[1]}.to({match[2]})" if match else wide.replace("torch.ops.", "")
