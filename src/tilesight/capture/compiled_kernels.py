"""What Triton compiled for a GPU, to be launched again as it is (Triton 3.6 to 3.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from triton import knobs
from triton.compiler import CompiledKernel
from triton.runtime import driver


def active_driver() -> object:
    """Who launches at present: one driver for CUDA, another one for each session of the engine."""
    return driver.active


def launch_of(compiled: Any, grid: tuple[int, ...], device: int) -> Callable[..., None] | None:
    """Launches a kernel that `kernel[grid](...)` returned, with the same kind of arguments, constexprs too.

    A tensor may be given as its address. The launch goes to the device's current stream, without what Triton prepares
    for hooks on launches where there are none.

    Args:
        device: the index of the GPU that was the current one when the kernel was launched
    Returns: None for what is no kernel of an NVIDIA GPU
    """
    if type(compiled) is not CompiledKernel or compiled.metadata.target.backend != "cuda":
        return None
    x, y, z = sizes = (*grid, 1, 1)[:3]
    plain, run, function, packed = compiled[sizes], compiled.run, compiled.function, compiled.packed_metadata
    assert run is not None
    active: Any = driver.active
    current_device, stream_of = active.get_current_device, active.get_current_stream
    hooks = knobs.runtime

    def launch(*arguments: Any) -> None:
        if current_device() != device:
            with torch.cuda.device(device):
                launch(*arguments)
        elif has_calls(hooks.launch_enter_hook) or has_calls(hooks.launch_exit_hook):
            plain(*arguments)
        else:
            run(x, y, z, stream_of(device), function, packed, None, None, None, *arguments)

    return launch


def has_calls(hook: Any) -> bool:
    """Whether something is called before or after a launch: a chain of hooks may be empty."""
    return hook is not None and bool(getattr(hook, "calls", True))
