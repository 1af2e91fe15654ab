"""Kernels that torch's dispatcher finds for a while. Seen on torch 2.11, 2.13 and 2.14."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from importlib import import_module
from typing import Any

import torch


@contextlib.contextmanager
def kernels_registered(kernels: Iterable[tuple[str, Any, str]]) -> Generator[None]:
    """While it lasts each (operator of aten, function, dispatch key) is registered."""
    library: Any = import_module("torch.library").Library("aten", "IMPL")
    for name, function, key in kernels:
        library.impl(name, function, key)
    try:
        yield
    finally:
        library._destroy()


def has_kernel(name: str, key: str) -> bool:
    """Whether an operator of aten has a kernel of its own for a dispatch key."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key)
