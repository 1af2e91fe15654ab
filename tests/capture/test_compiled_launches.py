"""Launches of the compiled kernel itself, as libraries that keep it make them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tilesight.capture.launches import EngineSession
from tilesight.errors import InputError


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


def compiled(x: torch.Tensor, out: torch.Tensor) -> Any:
    kernel: Any = scale_kernel
    return kernel[(2,)](x, out, 100, 2.0, BLOCK=64)


@pytest.mark.parametrize("constexprs", [(64,), ()])
def test_constexprs_at_the_end_may_be_left_out(engine: EngineSession, constexprs: tuple[int, ...]) -> None:
    x, first, second = torch.randn(100), torch.empty(100), torch.zeros(100)
    kernel = compiled(x, first)
    kernel[(2, 1, 1)](x, second, 100, 3.0, *constexprs)
    assert torch.equal(first, 2 * x)
    assert torch.equal(second, 3 * x)


@pytest.mark.parametrize(("count", "got"), [(3, "3 arguments"), (6, "6 arguments")])
def test_too_few_or_too_many_arguments_are_refused(engine: EngineSession, count: int, got: str) -> None:
    x, out = torch.randn(100), torch.zeros(100)
    kernel = compiled(x, torch.empty(100))
    arguments = (x, out, 100, 3.0, 64, 5)[:count]
    with pytest.raises(InputError, match=got):
        kernel[(2, 1, 1)](*arguments)
    assert not out.any()
