"""The hand-written library's numbers and gradients against torch's in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from tilesight import Case, check
from tilesight.capture.numerics import judge

Function = Callable[..., Any]
MORE_THAN_TORCH = 2
"""How much larger than torch's own an error over the tolerance may be: both are the worst of many roundings."""

dynamo_instantiates_functions = pytest.mark.filterwarnings(
    "ignore:.*torch.autograd.function.Function.* should not be instantiated:DeprecationWarning"
)
"""A warning about what Dynamo does itself with every `autograd.Function`."""


def draw(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Normal numbers of the dtype, the same at every call."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype)


def tensors_of(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


def with_gradients(
    function: Function, inputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The outputs, then the gradient of each input for these gradients of the outputs."""
    leaves = [each.detach().clone().requires_grad_() for each in inputs]
    outputs = tensors_of(function(*leaves))
    torch.autograd.backward(outputs, list(grads))
    found = [leaf.grad for leaf in leaves]
    assert all(each is not None for each in found)
    return [*(each.detach() for each in outputs), *(each for each in found if each is not None)]


def assert_near_float64(
    function: Function, reference: Function, inputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor] | None = None
) -> None:
    """Outputs and gradients within the tolerance of the inputs' dtype, or about as near as torch's own in that dtype.

    A gradient that is computed from a rounded output, as torch's is too, leaves the tolerance in one of many elements.

    Args:
        grads: of the outputs; drawn on the CPU when None
    """
    dtype = inputs[0].dtype
    if grads is None:
        shapes = [each.shape for each in tensors_of(reference(*inputs))]
        grads = [draw(shape, dtype, 100 + number) for number, shape in enumerate(shapes)]
    got = with_gradients(function, inputs, grads)
    wanted = with_gradients(reference, [each.double() for each in inputs], [each.double() for each in grads])
    assert all(each.dtype == dtype for each in got)
    verdict = judge(got, wanted)
    if not verdict.ok:
        own = judge(with_gradients(reference, inputs, grads), wanted)
        assert verdict.max_error <= MORE_THAN_TORCH * own.max_error, (verdict, own)


def assert_compiled_whole(function: Function, inputs: Sequence[torch.Tensor]) -> None:
    """`torch.compile` takes the function between two other operators, without a graph break; the same comes out."""

    def between(*args: torch.Tensor) -> list[torch.Tensor]:
        return [each + 1 for each in tensors_of(function(args[0] * 2, *args[1:]))]

    torch.compiler.reset()
    compiled = torch.compile(between, fullgraph=True, backend="aot_eager")
    grads = [draw(each.shape, each.dtype, 100 + number) for number, each in enumerate(between(*inputs))]
    got, wanted = with_gradients(compiled, inputs, grads), with_gradients(between, inputs, grads)
    assert len(got) == len(wanted) == len(inputs) + len(grads)
    for pair in zip(got, wanted, strict=True):
        torch.testing.assert_close(*pair)


def assert_no_finding(case: Case, dtypes: str = "bf16", shapes: str | None = None) -> None:
    """`tilesight check` of a case: every number right, and nothing found."""
    found = check(case, shapes=shapes, dtypes=dtypes)
    assert found.cases and not found.findings and all(each.ok for each in found.cases), found
