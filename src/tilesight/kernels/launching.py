"""Launches that cost the host less: a kernel that Triton has compiled for such arguments is launched as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tilesight.capture.compiled_kernels import active_driver, launch_of

MOST_KEPT = 4096
_PLAIN = frozenset({int, float, bool, type(None)})
_kept: dict[tuple[Any, ...], Callable[..., Any]] = {}


def launcher(kernel: Any, grid: tuple[int, ...]) -> Callable[..., None]:
    """What launches as `kernel[grid]` does: to be called with the kernel's arguments and `num_warps`; and `registers`,
    the most that a thread may have on a GPU.

    On a GPU the compiled kernel of the first launch is kept, by the kernel, the grid, all numbers, the tensors' dtypes
    and whether their addresses are multiples of 16: all that Triton chooses a compiled kernel by. A later launch of the
    same key skips that choice, which is half of the host's time of a small launch (13.8 and 7.8 us on an H200's host,
    Triton 3.6.0). What is changed in `triton.knobs` after a first launch is not seen. The first argument is a tensor.
    """
    return partial(_launch, kernel, grid)


def _launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, num_warps: int, registers: int | None = None) -> None:
    first = arguments[0]
    if not first.is_cuda:
        kernel[grid](*arguments, num_warps=num_warps)
        return
    key = (
        kernel.fn,
        grid,
        num_warps,
        registers,
        active_driver(),
        first.get_device(),
        *[_kind(argument) for argument in arguments],
    )
    kept = _kept.get(key)
    if kept is not None:
        kept(*arguments)
        return
    compiled = kernel[grid](*arguments, num_warps=num_warps, maxnreg=registers)
    kept = launch_of(compiled, grid)
    if kept is not None:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[key] = kept


def _kind(argument: Any) -> Any:
    """What of an argument the choice of a compiled kernel depends on."""
    if type(argument) in _PLAIN or not isinstance(argument, torch.Tensor):
        return argument
    return argument.dtype, argument.data_ptr() & 15
