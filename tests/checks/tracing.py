"""Runs a kernel as the sanitizer does and gives the findings of the traces."""

# pyright: basic

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tests.engine.launching import launch_of
from tilesight.checks.finding import Finding
from tilesight.checks.replay import Replay
from tilesight.checks.suspects import Suspects
from tilesight.engine import ExecutionOptions, execute
from tilesight.ir import parse_module

Find = Callable[[Replay, Suspects], list[Finding]]


def trace(find: Find, kernel: Any, grid: tuple[int, ...], **arguments: Any) -> list[Finding]:
    """The findings of one inspection of one launch; tensors are written in place."""
    launch = launch_of(kernel, grid, arguments)
    module, options = parse_module(launch.ttir), ExecutionOptions()
    replay, suspects = Replay.of(module, launch, options), Suspects(module)
    execute(module, launch, (suspects,), options)
    return find(replay, suspects)


def line_with(kernel: Any, text: str) -> int:
    """The line of a kernel, or of a helper, that holds a text."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (found,) = [first + index for index, line in enumerate(lines) if text in line]
    return found
