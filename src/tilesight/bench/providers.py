"""Who is timed: eager, torch.compile in two modes, the hand-written kernel, and the peers that are installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from tilesight.bench.clocks import Call
from tilesight.bench.operator_model import Function, Operator
from tilesight.capture.numerics import flatten
from tilesight.errors import InputError

COMPILED = {"compiled": None, "compiled_max": "max-autotune-no-cudagraphs"}
"""Provider → mode of torch.compile; a fresh compilation for each shape, no dynamic shapes."""
OWN = ("eager", *COMPILED, "hand")


def provider_names(operator: Operator) -> tuple[str, ...]:
    """Every provider of an operator, installed or not."""
    hand = () if operator.hand is None else ("hand",)
    return ("eager", *COMPILED, *hand, *operator.peers)


def choose_providers(operator: Operator, wanted: Sequence[str]) -> tuple[str, ...]:
    """Those of the wanted ones that the operator has; all of them when none is named."""
    names = provider_names(operator)
    return tuple(name for name in names if not wanted or name in wanted)


def known_providers(wanted: Sequence[str], operators: Sequence[Operator]) -> None:
    """Raises: InputError: for a provider that none of the operators has"""
    known = list(dict.fromkeys(name for operator in operators for name in provider_names(operator)))
    for name in wanted:
        if name not in known:
            raise InputError(f"no provider {name}", where="--providers", expected=f"some of {', '.join(known)}")


def function_of(operator: Operator, provider: str) -> Function:
    """The provider's function.

    Raises: ImportError: for a peer that is not installed
    """
    if provider == "eager":
        return operator.eager
    if provider in COMPILED:
        return torch.compile(operator.eager, dynamic=False, mode=COMPILED[provider])
    if provider == "hand":
        assert operator.hand is not None
        return operator.hand
    return operator.peers[provider]()


def call_of(
    operator: Operator, function: Function, inputs: Sequence[Any], rounded_to: Sequence[torch.dtype] = ()
) -> Call:
    """What is timed: the function on its inputs, the gradients of what it returned, or both.

    Args: rounded_to: dtypes that the outputs' gradients are rounded to; their own when empty
    """
    if operator.mode == "forward":
        return partial(_without_gradients, function, inputs)
    leaves = [_leaf(value) if operator.has_gradient(place, value) else value for place, value in enumerate(inputs)]
    wanted = operator.differentiated(leaves)
    if operator.mode == "both":
        return partial(_both, function, leaves, wanted)
    outputs = flatten(function(*leaves))
    gradients = _gradients_of(outputs, rounded_to or [each.dtype for each in outputs])
    grad: Callable[..., Any] = torch.autograd.grad
    return lambda: grad(outputs, wanted, gradients, retain_graph=True)


def _without_gradients(function: Function, inputs: Sequence[Any]) -> Any:
    with torch.no_grad():
        return function(*inputs)


def _both(function: Function, leaves: Sequence[Any], wanted: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A loss and its gradients."""
    (loss,) = flatten(function(*leaves))
    return [loss.detach(), *torch.autograd.grad(loss, wanted)]


def _gradients_of(outputs: Sequence[torch.Tensor], dtypes: Sequence[torch.dtype]) -> list[torch.Tensor]:
    """Random, one an output."""
    generator = torch.Generator(outputs[0].device).manual_seed(1)
    return [
        torch.randn(each.shape, generator=generator, device=each.device).to(dtype).to(each.dtype)
        for each, dtype in zip(outputs, dtypes, strict=True)
    ]


def _leaf(value: torch.Tensor) -> torch.Tensor:
    """The same data, as the start of a graph."""
    return value.detach().requires_grad_()
