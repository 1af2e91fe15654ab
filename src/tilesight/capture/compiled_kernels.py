"""What Triton compiled for a GPU, to be launched again as it is (Triton 3.6 to 3.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.compiler import CompiledKernel
from triton.runtime import driver


def active_driver() -> object:
    """Who launches at present: one driver for CUDA, another one for each session of the engine."""
    return driver.active


def launch_of(compiled: Any, grid: tuple[int, ...]) -> Callable[..., None] | None:
    """Launches a kernel that `kernel[grid](...)` returned, with the same kind of arguments, constexprs too.

    None for what is no kernel of an NVIDIA GPU.
    """
    if type(compiled) is not CompiledKernel or compiled.metadata.target.backend != "cuda":
        return None
    return compiled[(*grid, 1, 1)[:3]]
