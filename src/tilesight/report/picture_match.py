"""Which kernel runs which ATen operator: what the bands of the graph picture stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilesight.roads.model import GraphOp, Kernel, Observation

VIEWS = {
    "alias", "as_strided", "detach", "expand", "getitem", "permute", "reshape", "select", "slice", "split",
    "split_with_sizes", "squeeze", "t", "transpose", "unsafe_view", "unsqueeze", "view",
}  # fmt: skip
"""Operators that move nothing: their result is their input, read with other strides."""


def with_own_names(seen: Observation) -> Observation:
    """The observation with each graph's name before its operators and buffers, where there are several graphs.

    Every graph numbers its own from the start: `add` and `buf0` of a forward and of a backward graph are not the same.
    """
    graph = seen.graph
    if not any(op.label for op in graph.ops):
        return seen
    renamed = replace(graph, ops=tuple(map(_named_op, graph.ops)), inputs=tuple(map(_named_op, graph.inputs)))
    return replace(seen, graph=renamed, kernels=tuple(map(_named_kernel, seen.kernels)))


def _named_op(op: GraphOp) -> GraphOp:
    return replace(op, name=f"{op.label}.{op.name}", inputs=tuple(f"{op.label}.{name}" for name in op.inputs))


def _named_kernel(kernel: Kernel) -> Kernel:
    reads, writes = ([f"{kernel.label}.{name}" for name in side] for side in (kernel.reads, kernel.writes))
    return replace(kernel, reads=tuple(reads), writes=tuple(writes))


def kernel_of_each_op(ops: Sequence[GraphOp], kernels: Sequence[Kernel]) -> dict[str, int]:
    """The number of the kernel that computes each operator, by operator name, as far as can be told.

    A kernel names the operators that its nodes were made from (`aten.gelu`) and the user's lines, not
    the nodes of the graph (`mul`, `erf`). So an extern call takes the next operator of its own name, a
    Triton kernel those of its lines and names; always the first that does not run before the
    operator's inputs. A view stands with its input, a constant with the first operator that reads it.
    """
    constants = _constants(ops)
    found: dict[str, int] = {}
    taken: set[int] = set()
    for op in ops:
        inputs = [found[name] for name in op.inputs if name in found]
        if is_view(op):
            if inputs:
                found[op.name] = inputs[0]
        elif op.name not in constants:
            number = _first_possible(op, kernels, inputs, taken)
            if number is not None:
                found[op.name] = number
                taken |= {number} if kernels[number].kind == "extern" else set()
    return _with_constants(ops, constants, found)


def _constants(ops: Sequence[GraphOp]) -> set[str]:
    """Operators that depend on no graph input: `iota`, `full` and what is computed from them."""
    constants: set[str] = set()
    for op in ops:
        if all(name in constants for name in op.inputs):
            constants.add(op.name)
    return constants


def _with_constants(ops: Sequence[GraphOp], constants: set[str], found: dict[str, int]) -> dict[str, int]:
    """The constants too, from the last to the first, so that chains follow their reader."""
    for op in reversed(ops):
        readers = [found[reader.name] for reader in ops if op.name in reader.inputs and reader.name in found]
        if op.name in constants and readers:
            found[op.name] = min(readers)
    return found


def is_view(op: GraphOp) -> bool:
    """The operator moves no bytes."""
    return operator_name(op.target) in VIEWS


def operator_name(target: str) -> str:
    """`add` for `aten.add.Tensor`, `getitem` for `getitem`."""
    parts = target.split(".")
    return (parts[1] if len(parts) > 1 else parts[0]).lstrip("_")


def _first_possible(op: GraphOp, kernels: Sequence[Kernel], inputs: Sequence[int], taken: set[int]) -> int | None:
    after_inputs = max((number + (kernels[number].kind == "extern") for number in inputs), default=0)
    for candidates in _candidates(op, kernels):
        possible = [number for number in candidates if number >= after_inputs and number not in taken]
        if possible:
            return min(possible)
    return None


def _candidates(op: GraphOp, kernels: Sequence[Kernel]) -> list[set[int]]:
    """Kernels that may run the operator, those with the surest evidence first."""
    name = operator_name(op.target)
    extern = {n for n, k in enumerate(kernels) if k.kind == "extern" and operator_name(f"aten.{k.name}") == name}
    triton = [(n, k) for n, k in enumerate(kernels) if k.kind != "extern"]
    named = {n for n, k in triton if op.name in k.ops or name in map(operator_name, k.ops)}
    on_line = {n for n, k in triton if op.source and op.source in k.source_lines}
    own = {n for n, k in enumerate(kernels) if k.label == op.label}
    return [extern & own, on_line & own, named & own]
