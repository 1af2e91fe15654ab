"""Which kernel runs which ATen operator: what the bands of the graph picture stand for."""

from __future__ import annotations

from collections.abc import Sequence

from tilesight.roads.model import GraphOp, Kernel

VIEWS = frozenset(
    [
        "alias",
        "as_strided",
        "detach",
        "expand",
        "getitem",
        "permute",
        "reshape",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unsafe_view",
        "unsqueeze",
        "view",
    ]  # fmt: skip
)
"""Operators that move nothing: their result is their input, read with other strides."""


def kernel_of_each_op(ops: Sequence[GraphOp], kernels: Sequence[Kernel]) -> dict[str, int]:
    """The number of the kernel that computes each operator, by operator name, as far as can be told.

    A kernel names the operators that its nodes were made from (`aten.gelu`) and the user's lines, not
    the nodes of the graph (`mul`, `erf`). So an extern call takes the next operator of its own name, a
    Triton kernel those of its lines and names; always the first that does not run before the
    operator's inputs. A view stands with its input.
    """
    found: dict[str, int] = {}
    taken: set[int] = set()
    for op in ops:
        inputs = [found[name] for name in op.inputs if name in found]
        if is_view(op):
            if inputs:
                found[op.name] = inputs[0]
            continue
        number = _first_possible(op, kernels, inputs, taken)
        if number is not None:
            found[op.name] = number
            if kernels[number].kind == "extern":
                taken.add(number)
    return found


def is_view(op: GraphOp) -> bool:
    """The operator moves no bytes."""
    return operator_name(op.target) in VIEWS


def operator_name(target: str) -> str:
    """`add` for `aten.add.Tensor`, `getitem` for `getitem`."""
    parts = target.split(".")
    return (parts[1] if len(parts) > 1 else parts[0]).lstrip("_")


def _first_possible(op: GraphOp, kernels: Sequence[Kernel], inputs: Sequence[int], taken: set[int]) -> int | None:
    after = [number + (kernels[number].kind == "extern") for number in inputs]
    earliest = max(after, default=0)
    candidates = [number for number in _candidates(op, kernels) if number not in taken]
    return next((number for number in candidates if number >= earliest), candidates[-1] if candidates else None)


def _candidates(op: GraphOp, kernels: Sequence[Kernel]) -> list[int]:
    """Kernels that may run the operator, the surest kind of evidence alone."""
    name = operator_name(op.target)
    extern = [n for n, k in enumerate(kernels) if k.kind == "extern" and k.name.split(".")[-1].lstrip("_") == name]
    if extern:
        return extern
    triton = [(n, k) for n, k in enumerate(kernels) if k.kind != "extern"]
    named = {n for n, k in triton if op.name in k.ops or name in map(operator_name, k.ops)}
    on_line = {n for n, k in triton if op.source and op.source in k.source_lines}
    return sorted(named & on_line or on_line or named)
