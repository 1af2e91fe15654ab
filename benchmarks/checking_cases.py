"""The launches on which a check is timed: `tilesight check benchmarks/checking_cases.py:NAME`.

Inputs are made once and kept, so that a second launch is the kernel and its fresh output alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import triton

from engine_cases import add_kernel, matmul_kernel, softmax_kernel

BLOCK = 1024
TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}


@cache
def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def add(n: int) -> torch.Tensor:
    x, y = normal(n), normal(n, seed=1)
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK)
    return out


def softmax(rows: int) -> torch.Tensor:
    x = normal(rows, BLOCK)
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](x, out, BLOCK, BLOCK=BLOCK)
    return out


def matmul(dtype: torch.dtype) -> torch.Tensor:
    a, b = normal(256, 256, dtype=dtype), normal(256, 256, dtype=dtype, seed=1)
    c = torch.empty_like(a)
    matmul_kernel[(256 // TILE["BLOCK_M"], 256 // TILE["BLOCK_N"])](a, b, c, 256, 256, 256, **TILE)
    return c


def add_1m() -> torch.Tensor:
    return add(2**20)


def add_16m() -> torch.Tensor:
    return add(2**24)


def softmax_1024() -> torch.Tensor:
    return softmax(1024)


def softmax_16384() -> torch.Tensor:
    return softmax(16384)


def matmul_f16() -> torch.Tensor:
    return matmul(torch.float16)


def matmul_f32() -> torch.Tensor:
    return matmul(torch.float32)


@dataclass(frozen=True)
class CheckingCase:
    """A launch, what it must give, and what is asked of its check.

    Args:
        tolerance: absolute and relative, of the result
        most_ratio: the check's time over the untraced launch's
        most_s: the check's time
    """

    title: str
    launch: Callable[[], torch.Tensor]
    expected: Callable[[], torch.Tensor]
    tolerance: float
    most_ratio: float | None = None
    most_s: float | None = None


def product(dtype: torch.dtype) -> torch.Tensor:
    return (normal(256, 256, dtype=dtype).double() @ normal(256, 256, dtype=dtype, seed=1).double()).to(dtype)


CASES: dict[str, CheckingCase] = {
    "add_1m": CheckingCase("vector add 2^20", add_1m, lambda: normal(2**20) + normal(2**20, seed=1), 0, 3),
    "softmax_1024": CheckingCase("softmax 1024x1024", softmax_1024, lambda: normal(1024, BLOCK).softmax(1), 1e-6, 3),
    "matmul_f16": CheckingCase("matmul 256^3 f16", matmul_f16, lambda: product(torch.float16), 2e-3, 3),
    "matmul_f32": CheckingCase("matmul 256^3 f32", matmul_f32, lambda: product(torch.float32), 0.1, 3),
    "add_16m": CheckingCase("vector add 2^24", add_16m, lambda: normal(2**24) + normal(2**24, seed=1), 0, None, 3),
    "softmax_16384": CheckingCase(
        "softmax 16384x1024", softmax_16384, lambda: normal(16384, BLOCK).softmax(1), 1e-6, None, 5
    ),
}
"""Name in this file → the case. The f32 product is of tf32 operands: 10 bits of each, summed over 256."""
