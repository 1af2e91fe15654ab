"""Kernels as operators of torch: registered once for CUDA and the CPU, with their shapes for tracing.

Registered by `torch.library.define`, `impl` and `register_fake`, with `autograd.Function` outside of the operator: the
cheapest path from Python to a launch that `torch.compile` and `torch.export` take whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import torch

from tilesight.kernels.remembered import implementations, remembered

NAMESPACE = "tilesight"
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def define(
    schema: str, launch: Callable[..., Any], fake: Callable[..., Any], state: Callable[[], Any] | None = None
) -> Callable[..., Any]:
    """Register an operator `tilesight::NAME`; a CPU tensor's launch runs on the engine.

    Args:
        schema: such as `name(Tensor x) -> Tensor`
        launch: what it does with tensors on a GPU
        fake: the same for tensors that have shapes and no data
        state: what the launch depends on beside the arguments
    Returns: the operator
    """
    name = schema.partition("(")[0]

    def launch_on_engine(*args: Any) -> Any:
        with _engine():
            return launch(*args)

    def launch_anywhere(*args: Any) -> Any:
        is_cuda = any(isinstance(each, torch.Tensor) and each.is_cuda for each in args)
        return launch(*args) if is_cuda else launch_on_engine(*args)

    torch.library.define(f"{NAMESPACE}::{name}", schema[len(name) :])
    torch.library.impl(f"{NAMESPACE}::{name}", "CUDA", remembered(launch, state))
    torch.library.impl(f"{NAMESPACE}::{name}", "CPU", launch_on_engine)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake)
    operator = getattr(getattr(torch.ops, NAMESPACE), name).default
    implementations[operator] = launch_anywhere
    return operator


def _engine() -> contextlib.AbstractContextManager[object]:
    """Triton on the engine, unless it is there already; imported where a tensor is on the CPU only."""
    launches = import_module("tilesight.capture.launches")
    return contextlib.nullcontext() if launches.installed_session() else _session()


@cache
def _session() -> Any:
    return import_module("tilesight.capture.launches").EngineSession()


def like_first(first: torch.Tensor, *_: Any) -> torch.Tensor:
    """A result of the first tensor's shape and dtype, contiguous."""
    return torch.empty_like(first, memory_format=torch.contiguous_format)


def require_floats(name: str, *tensors: torch.Tensor | None) -> None:
    """Raises: TypeError: for a tensor that is not of a floating-point dtype"""
    for tensor in tensors:
        if tensor is not None and tensor.dtype not in FLOATS:
            raise TypeError(f"{name} takes float16, bfloat16, float32 or float64, not {tensor.dtype}")


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """What sums over elements of a floating-point dtype are kept in: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def float32_precision() -> str:
    """What torch multiplies matrices of float32 in on a GPU, by the old setting or the new: "ieee" or "tf32"."""
    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"


def precision_of(dtype: torch.dtype) -> str:
    """How products of a dtype are computed."""
    return float32_precision() if dtype == torch.float32 else "ieee"


def in_autocast_dtype(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor in `dtype`; without one in float32 under autocast on CUDA, for operators that autocast keeps wide."""
    is_widened = tensor.is_cuda and torch.is_autocast_enabled("cuda") and tensor.dtype in FLOATS[:2]
    wanted = torch.float32 if dtype is None and is_widened else dtype
    return tensor if wanted is None else tensor.to(wanted)


def needs_gradient(*tensors: torch.Tensor | None) -> bool:
    """Whether autograd records what is computed from these."""
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in tensors)
