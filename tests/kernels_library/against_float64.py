"""The hand-written library's numbers and gradients against torch's in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from tilesight.capture.numerics import tolerance_of

Function = Callable[..., Any]

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


def largest_error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest |got − wanted| / (|wanted| + rms(wanted))."""
    if wanted.numel() == 0:
        return 0.0
    scale = wanted.abs() + wanted.square().mean().sqrt()
    return float(((got.double() - wanted).abs() / scale.clamp_min(1e-300)).max())


def assert_near_float64(
    function: Function, reference: Function, inputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor] | None = None
) -> None:
    """Outputs and gradients within the tolerance of the inputs' dtype.

    Args:
        grads: of the outputs; drawn on the CPU when None
    """
    dtype = inputs[0].dtype
    if grads is None:
        shapes = [each.shape for each in tensors_of(reference(*inputs))]
        grads = [draw(shape, dtype, 100 + number) for number, shape in enumerate(shapes)]
    got = with_gradients(function, inputs, grads)
    wanted = with_gradients(reference, [each.double() for each in inputs], [each.double() for each in grads])
    errors = [largest_error(*pair) for pair in zip(got, wanted, strict=True)]
    assert [each.shape for each in got] == [each.shape for each in wanted]
    assert all(each.dtype == dtype for each in got)
    assert max(errors) <= tolerance_of(dtype), errors
