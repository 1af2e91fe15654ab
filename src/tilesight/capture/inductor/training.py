"""A forward and a backward graph run one after the other on the engine, with what the first saves for the second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tilesight.capture.inductor.bind import bind_inputs
from tilesight.capture.inductor.execute import run_wrapper
from tilesight.capture.inductor.graph import CompiledGraph, CompiledRegion
from tilesight.capture.launches import on_engine
from tilesight.errors import UnsupportedError

TANGENT = "tangents_"
"""AOT autograd's name for a gradient that comes into a backward graph."""


@dataclass(frozen=True)
class TrainingStep:
    """What a forward and a backward graph returned.

    Args:
        outputs: the forward graph's own, in its order, what it saves left out
        gradients: of the forward graph's inputs in their order; None for those that have none
    """

    outputs: tuple[Any, ...]
    gradients: tuple[Any, ...]


def run_training(
    graph: CompiledGraph,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    start: Callable[[tuple[int, ...], torch.dtype], torch.Tensor] = lambda shape, dtype: torch.ones(shape, dtype=dtype),
) -> TrainingStep:
    """Run the two graphs of one training step on copies of the inputs and the weights.

    Args:
        function: the function, or the module with real weights on the CPU
        inputs: real CPU tensors
        start: makes the gradient of each output from its shape and dtype
    Raises:  UnsupportedError: when there is not exactly one forward graph with its backward one
    """
    if [region.graph for region in graph.regions] != ["forward", "backward"]:
        raise UnsupportedError(
            f"the function was cut into {len(graph.regions)} graphs",
            expected="one forward and one backward graph",
            next_step="graphs apart are shown but not executed together yet",
        )
    forward, backward = graph.regions
    session = on_engine()
    with torch.no_grad(), session:
        made = run_wrapper(forward.code, [_copied(value) for value in bind_inputs(forward, function, inputs)])
        saved = dict(zip(forward.output_nodes, made, strict=True))
        wanted = backward_inputs(backward)
        gradients = run_wrapper(
            backward.code, [saved[name] if name in saved else _start(backward, name, start) for name in wanted]
        )
    return TrainingStep(tuple(made[: len(made) - saved_count(backward)]), tuple(gradients))


def backward_inputs(region: CompiledRegion) -> list[str]:
    """The names of a graph's inputs: what was saved, then the gradients that come in."""
    return [node.name for node in region.aten if node.op == "placeholder"]


def saved_count(region: CompiledRegion) -> int:
    """How many outputs of the forward graph, its last ones, are there for this backward graph alone."""
    return sum(not name.startswith(TANGENT) for name in backward_inputs(region))


def _copied(value: Any) -> Any:
    """A tensor of the same layout that may be written."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value.detach())


def _start(region: CompiledRegion, name: str, start: Callable[[tuple[int, ...], torch.dtype], torch.Tensor]) -> Any:
    buffer = region.buffers[name]
    dtype: torch.dtype = getattr(torch, buffer.dtype)
    return torch.empty_strided(buffer.shape, buffer.strides, dtype=dtype).copy_(start(buffer.shape, dtype))
