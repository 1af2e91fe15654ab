"""Which kernel runs which ATen operator: what the bands of the graph picture stand for."""

from __future__ import annotations

from collections.abc import Sequence

from tilesight.roads.model import GraphOp, Kernel


def kernel_of_each_op(ops: Sequence[GraphOp], kernels: Sequence[Kernel]) -> dict[str, int]:
    """The number of the kernel that computes each operator, by operator name; views have none.

    A kernel names ATen operators (`aten.add`), or nodes (`add_1`), not which of several calls it is.
    Told apart by the user's line where the kernel knows it, then by order: an operator runs in the
    first candidate that is not before its inputs' kernels.
    """
    found: dict[str, int] = {}
    for op in ops:
        candidates = _candidates(op, kernels)
        if candidates:
            earliest = max((found[name] for name in op.inputs if name in found), default=0)
            found[op.name] = next((number for number in candidates if number >= earliest), candidates[-1])
    return found


def _candidates(op: GraphOp, kernels: Sequence[Kernel]) -> list[int]:
    by_node = [number for number, kernel in enumerate(kernels) if op.name in kernel.ops]
    if by_node:
        return by_node
    names = {op.target, short_target(op.target)}
    named = [number for number, kernel in enumerate(kernels) if names & set(kernel.ops)]
    on_line = [number for number in named if op.source and op.source in kernels[number].source_lines]
    return on_line or named


def short_target(target: str) -> str:
    """`aten.add` for `aten.add.Tensor`: the operator without its overload."""
    parts = target.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else target
