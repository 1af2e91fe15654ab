"""What torch's CUDA build answers and its CPU build does not: which operators have kernels, cuDNN's layouts, autocast.

A graph is taken apart by what is registered for the device. In a CPU build nothing is registered for CUDA, and where
a CUDA build finds no GPU it takes cuDNN for absent: both would trace another graph than the GPU's.
Seen to work on torch 2.11.0, 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch

from tilesight.capture.inductor.dispatcher import has_kernel, kernels_registered

ONE_KERNEL_ON_CUDA = ("_fused_rms_norm", "mish_backward", "silu_backward")
"""Operators with a kernel for CUDA that other devices take apart: those of native_functions.yaml (it comes with torch)
that have both. A test compares."""


@contextlib.contextmanager
def as_in_a_cuda_build() -> Generator[None]:
    """While it lasts, fake CUDA tensors are traced as by a CUDA build of torch that has a GPU and cuDNN."""
    common: Any = import_module("torch.cuda.amp.common")
    with (
        kernels_registered(_missing_kernels()),
        patch.object(torch._C, "_conv_determine_backend_memory_format", _memory_format_of_convolution),
        patch.object(common, "amp_definitely_not_available", lambda: False),
    ):
        yield


def _missing_kernels() -> list[tuple[str, Any, str]]:
    """A kernel for CUDA, never called, where this build has none: the dispatcher then keeps the operator whole."""
    return [(name, _no_kernel, "CUDA") for name in ONE_KERNEL_ON_CUDA if not has_kernel(name, "CUDA")]


def _no_kernel(*_: Any, **__: Any) -> Any:
    raise AssertionError("a CUDA kernel was called where no GPU is")


_determine_in_this_build: Any = torch._C._conv_determine_backend_memory_format


def _memory_format_of_convolution(image: Any, weight: Any, backend: Any) -> torch.memory_format:
    """The layout that a convolution's result has: cuDNN's, for tensors on CUDA.

    Source: `cudnn_conv_suggest_memory_format` in ATen/native/ConvUtils.h: last axis channels where either operand has
        it so, float64 apart.
    """
    if image.device.type != "cuda" or not torch.backends.cudnn.enabled:
        return _determine_in_this_build(image, weight, backend)
    suggest = import_module("torch._prims_common").suggest_memory_format
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.ndim)
    is_last = last is not None and last in (suggest(image), suggest(weight))
    if not is_last or torch.float64 in (image.dtype, weight.dtype):
        return torch.contiguous_format
    assert last is not None
    return last
