"""What the author of a launcher calls its inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def input_names(function: Callable[..., Any], count: int) -> list[str]:
    """A Python expression for each of the inputs that a function is called with.

    Its parameters, without those that a partial object or a method has filled; `tensors[0]`, `tensors[1]` for
    what goes into `*tensors`, and `inputs[0]` where a function does not tell its parameters.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    names = [each.name for each in parameters if each.kind in POSITIONAL][:count]
    rest = next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
    first = 0 if rest is None else len(names)
    return names + [f"{rest or 'inputs'}[{index - first}]" for index in range(len(names), count)]


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """The parameters that a call has to give a value."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in variadic]
