"""The real tensors that a compiled region's placeholders stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilesight.capture.inductor.graph import CompiledRegion
from tilesight.errors import UnsupportedError


def bind_inputs(region: CompiledRegion, function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    """The graph's inputs in placeholder order, taken from the call's arguments and the module's weights.

    Args:
        region: a region that starts at the function's entry
        function: the function, or the module with real weights on the CPU
        inputs: the call's positional arguments, real CPU tensors
    Raises:  UnsupportedError: when a placeholder comes from elsewhere
    """
    scope = {"L": _locals(function, inputs), "G": _globals(function)}
    return [_value(source, scope) for source in region.input_sources]


def _value(source: str, scope: dict[str, Any]) -> Any:
    try:
        return eval(source, dict(scope))  # an access path that Dynamo wrote, such as L['self']._modules['q']
    except Exception as error:
        raise UnsupportedError(
            f"the graph input {source or '(unnamed)'} cannot be found again",
            next_step="only arguments, module weights and globals can be executed; the code above is complete",
        ) from error


def _locals(function: Callable[..., Any], inputs: Sequence[Any]) -> dict[str, Any]:
    if isinstance(function, torch.nn.Module):
        names = inspect.signature(type(function).forward).bind(function, *inputs)
        # torch's own containers are traced through a wrapper that calls them `fn(*args)`
        return {**names.arguments, "fn": function, "args": tuple(inputs)}
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin such as torch.relu has none: Dynamo calls it from a function of *args
        return {"args": tuple(inputs)}
    bound = signature.bind(*inputs)
    bound.apply_defaults()
    closure = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    return {**closure, **bound.arguments}


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    plain = type(function).forward if isinstance(function, torch.nn.Module) else function
    return getattr(plain, "__globals__", {})
