"""Runs a kernel under the whole sanitizer."""

# pyright: basic

from __future__ import annotations

from typing import Any

from tests.engine.launching import launch_of
from tilesight.checks.coverage import find_never_written
from tilesight.checks.finding import Finding
from tilesight.checks.sanitize import Sanitizer
from tilesight.engine import ExecutionOptions, execute
from tilesight.ir import parse_module


def sanitize(kernel: Any, grid: tuple[int, ...], **arguments: Any) -> list[Finding]:
    """Everything that is found in one launch; tensors are written in place."""
    launch = launch_of(kernel, grid, arguments)
    module, options = parse_module(launch.ttir), ExecutionOptions()
    sanitizer = Sanitizer(module, launch, options)
    execute(module, launch, sanitizer.listeners, options)
    return sanitizer.findings() + find_never_written(sanitizer.outputs)
