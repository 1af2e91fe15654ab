"""A NaN that the reference has too is the operator's value, one that it has not is the kernel's fault."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tilesight import Case, check


@triton.jit
def share_kernel(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.store(out + tl.program_id(0) * cols + c, values / tl.sum(values, axis=0), mask=c < cols)


def share(x):
    x, out = x.contiguous(), torch.empty(x.shape, dtype=x.dtype)
    share_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def with_a_row_of_zeros():
    x = torch.rand(5, 20) + 1
    x[3] = 0
    return (x,)


def shares(x):
    return x / x.sum(1, keepdim=True)


def guarded_shares(x):
    return x / x.sum(1, keepdim=True).clamp(min=1e-6)


def test_what_the_reference_gives_too_is_a_note() -> None:
    found = check(Case(eager=shares, hand=share, inputs=with_a_row_of_zeros))
    assert found.ok
    assert [(each.kind, each.level) for each in found.findings] == [("nan-origin", "note")]
    assert "the reference gives the same" in found.findings[0].hint


def test_what_the_reference_does_not_give_is_an_error() -> None:
    found = check(Case(eager=guarded_shares, hand=share, inputs=with_a_row_of_zeros))
    assert not found.ok
    assert [(each.kind, each.level) for each in found.findings] == [("nan-origin", "error")]
