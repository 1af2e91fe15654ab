"""Launches that cost the host less: a kernel that Triton has compiled for such arguments is launched as it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from tilesight.capture.compiled_kernels import active_driver, launch_of

MOST_KEPT = 4096
_PLAIN = frozenset({int, bool, type(None)})
_kept: dict[tuple[Any, ...], Callable[..., None]] = {}


class _Listening(threading.local):
    launches: list[tuple[Callable[..., Any] | None, tuple[Any, ...]]] | None = None


listening = _Listening()
"""`launches`: where this thread's launches are written down, each as what launches it again (None where nothing does)
and its arguments."""


def launcher(kernel: Any, grid: tuple[int, ...]) -> Callable[..., None]:
    """What launches as `kernel[grid]` does: to be called with the kernel's arguments, `num_warps`, `num_stages` and
    `registers`, the most that a thread may have on a GPU.

    On a GPU the compiled kernel of the first launch is kept, by the kernel, the grid, all numbers, the tensors' dtypes
    and whether their addresses are multiples of 16, and the descriptors' blocks: all that Triton chooses a compiled
    kernel by. A later launch of the same key skips that choice, which is half of the host's time of a small launch
    (13.8 and 7.8 us on an H200's host, Triton 3.6.0). What is changed in `triton.knobs` after a first launch is not
    seen, but for hooks on launches. The first argument is a tensor or a descriptor; its GPU is made the current one.
    """
    return partial(_launch, kernel, grid)


def _launch(
    kernel: Any,
    grid: tuple[int, ...],
    *arguments: Any,
    num_warps: int,
    num_stages: int | None = None,
    registers: int | None = None,
) -> None:
    first = arguments[0].base if type(arguments[0]) is TensorDescriptor else arguments[0]
    if not first.is_cuda:
        _compiled(kernel, grid, num_warps, num_stages, None, *arguments)
        if listening.launches is not None:
            listening.launches.append((partial(_compiled, kernel, grid, num_warps, num_stages, None), arguments))
        return
    device = first.get_device()
    key = (
        kernel.fn,
        grid,
        num_warps,
        num_stages,
        registers,
        active_driver(),
        device,
        *[_kind(argument) for argument in arguments],
    )
    kept = _kept.get(key)
    if kept is not None:
        kept(*arguments)
    else:
        with torch.cuda.device(device):
            compiled = _compiled(kernel, grid, num_warps, num_stages, registers, *arguments)
        kept = launch_of(compiled, grid, device)
        if kept is not None:
            if len(_kept) >= MOST_KEPT:
                _kept.clear()
            _kept[key] = kept
    if listening.launches is not None:
        listening.launches.append((kept, arguments))


def _compiled(
    kernel: Any, grid: tuple[int, ...], num_warps: int, num_stages: int | None, registers: int | None, *arguments: Any
) -> Any:
    """Triton's own launch, which compiles; what it gives back."""
    options: dict[str, Any] = {"num_warps": num_warps}
    if num_stages is not None:
        options["num_stages"] = num_stages
    if registers is not None:
        options["maxnreg"] = registers
    return kernel[grid](*arguments, **options)


def _kind(argument: Any) -> Any:
    """What of an argument the choice of a compiled kernel depends on."""
    if type(argument) in _PLAIN:
        return argument
    if isinstance(argument, torch.Tensor):
        return argument.dtype, argument.data_ptr() & 15
    if type(argument) is TensorDescriptor:
        return argument.base.dtype, *argument.block_shape
    return (argument,) if type(argument) is float else argument
