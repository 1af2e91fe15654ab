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


@triton.jit
def combine(gate, state, next_gate, next_state):
    return next_gate * gate, next_gate * state + next_state


@triton.jit
def last_state_kernel(gates, x, out, cols, BLOCK: tl.constexpr):
    """Padded lanes hold the scan's identity, so that the last lane has the last state."""
    c = tl.arange(0, BLOCK)
    gate = tl.load(gates + tl.program_id(0) * cols + c, mask=c < cols, other=1.0)
    added = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    _, state = tl.associative_scan((gate, added), 0, combine)
    tl.store(out + tl.program_id(0), tl.sum(tl.where(c == BLOCK - 1, state, 0.0), 0))


@triton.jit
def exp_sum_kernel(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    tl.store(
        out + tl.program_id(0), tl.sum(tl.exp(tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)), 0)
    )


def last_state(gates, x):
    out = torch.empty(len(x))
    last_state_kernel[(len(x),)](
        gates.contiguous(), x.contiguous(), out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1])
    )
    return out


def last_states(gates, x):
    state = torch.zeros(len(x), dtype=x.dtype)
    for column in range(x.shape[1]):
        state = gates[:, column] * state + x[:, column]
    return state


def exp_sum(x):
    out = torch.empty(len(x))
    exp_sum_kernel[(len(x),)](x.contiguous(), out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


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


def test_padded_lanes_that_a_reduction_takes_on_purpose_are_a_note() -> None:
    found = check(Case(eager=last_states, hand=last_state, inputs="f32[3,10],f32[3,10]"), shapes="3,10", dtypes="f32")
    assert found.ok
    assert [(each.kind, each.level) for each in found.findings] == [("all-masked-row", "note")]


def test_padded_lanes_that_make_the_result_wrong_are_an_error() -> None:
    found = check(Case(eager=lambda x: x.exp().sum(1), hand=exp_sum, inputs="f32[3,10]"), shapes="3,10", dtypes="f32")
    assert [(each.kind, each.level) for each in found.findings] == [("all-masked-row", "error")]
