"""An operator of somebody else's library next to the same mathematics in torch, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.yardsticks.outcomes import LaunchCounter, NotRunError, Outcome, attempt
from tilesight.capture.numerics import Verdict, flatten, judge, tolerance_of
from tilesight.capture.tensors import dtype_name

SEED = 20


@dataclass(frozen=True)
class OperatorCase:
    """One operator and how it is judged.

    Args:
        inputs: dtype → the arguments of both functions; floating-point tensors get gradients
        run: the library's operator
        reference: the same in plain torch, called with float64 tensors
        constants: positions of floating-point arguments that get no gradient
        tolerances: by dtype, where the operator's own arithmetic is coarser than its dtype, with `why`
        not_run: dtype → why the library does not offer it
    """

    name: str
    inputs: Callable[[torch.dtype], tuple[Any, ...]]
    run: Callable[..., Any]
    reference: Callable[..., Any]
    constants: tuple[int, ...] = ()
    has_backward: bool = True
    tolerances: Mapping[str, float] = field(default_factory=dict[str, float])
    why: str = ""
    not_run: Mapping[str, str] = field(default_factory=dict[str, str])


def run_case(case: OperatorCase, dtype: torch.dtype, counter: LaunchCounter, limit_s: float) -> Iterator[Outcome]:
    """The outcomes of one operator in one dtype: forward, then backward."""
    kept: list[tuple[list[torch.Tensor], ...]] = []
    name, before = dtype_name(dtype), counter.launches

    def forward() -> Verdict:
        if name in case.not_run:
            raise NotRunError(case.not_run[name])
        torch.manual_seed(SEED)
        arguments = case.inputs(dtype)
        mine, my_leaves = copy_leaves(arguments, case.constants, None)
        wide, wide_leaves = copy_leaves(arguments, case.constants, torch.float64)
        # The library may write over its inputs: the reference comes first.
        expected = flatten(case.reference(*wide))
        outputs = flatten(case.run(*mine))
        kept.append((outputs, my_leaves, expected, wide_leaves))
        return _judge(case, name, [each.detach() for each in outputs], [each.detach() for each in expected])

    def backward() -> Verdict:
        if not kept:
            raise NotRunError("the forward pass failed")
        outputs, leaves, expected, wide_leaves = kept[0]
        kept_pairs = [pair for pair in zip(outputs, expected, strict=True) if pair[0].requires_grad]
        seeds = [torch.randn(each.shape).to(each.dtype) for each, _ in kept_pairs]
        # The library may write over the incoming gradient: the reference comes first.
        reference = gradients([each for _, each in kept_pairs], wide_leaves, [seed.double() for seed in seeds])
        mine = gradients([each for each, _ in kept_pairs], leaves, seeds)
        return _judge(case, name, mine, reference)

    yield attempt(case.name, "forward", name, forward, counter, limit_s)
    if case.has_backward:
        yield attempt(case.name, "backward", name, backward, counter, limit_s, before)


def copy_leaves(
    arguments: tuple[Any, ...], constants: tuple[int, ...], dtype: torch.dtype | None
) -> tuple[list[Any], list[torch.Tensor]]:
    """Copies of the arguments, floating-point ones in `dtype`; and those that get a gradient."""
    copies: list[Any] = []
    leaves: list[torch.Tensor] = []
    for position, value in enumerate(arguments):
        if isinstance(value, torch.Tensor):
            value = value.detach().clone()
            if value.is_floating_point():
                value = value if dtype is None else value.to(dtype)
                if position not in constants:
                    leaves.append(value.requires_grad_())
        copies.append(value)
    return copies, leaves


def gradients(outputs: list[torch.Tensor], leaves: list[torch.Tensor], seeds: list[torch.Tensor]) -> list[torch.Tensor]:
    found = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True, materialize_grads=True)
    return [each.detach() for each in found]


def _judge(case: OperatorCase, dtype: str, outputs: list[torch.Tensor], expected: list[torch.Tensor]) -> Verdict:
    verdict = judge(outputs, expected)
    # A float32 loss of bfloat16 inputs was computed from bfloat16 intermediates.
    tolerance = case.tolerances.get(dtype, max(verdict.tolerance, tolerance_of(getattr(torch, dtype))))
    return Verdict(verdict.max_error <= tolerance, verdict.max_error, tolerance)
