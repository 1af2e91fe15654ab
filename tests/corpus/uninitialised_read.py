"""Elements of torch.empty memory that are read before anything wrote them."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import heads, integer_product, matrix, normal, small_integers, vector
from tests.corpus.model import Seeded, pair

KIND = "uninitialised-read"
seeded = partial(pair, KIND)


@triton.jit
def accumulate(x_ptr, total_ptr, n, rounds, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(total_ptr + i, mask=i < n, other=0.0)  # fault
    for turn in range(rounds):
        total += tl.load(x_ptr + turn * n + i, mask=i < n, other=0.0)
    tl.store(total_ptr + i, total, mask=i < n)


def terms():
    return normal(3, 700, seed=11)


def accumulated(allocate):
    x = terms()
    total = allocate(700)
    accumulate[(triton.cdiv(700, 256),)](x, total, 700, 3, BLOCK=256)
    return total


@triton.jit
def partial_sums(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(partial_ptr + block, tl.sum(x * x, axis=0))


@triton.jit
def finish_slots(partial_ptr, out_ptr, SLOTS: tl.constexpr):
    slot = tl.arange(0, SLOTS)
    tl.store(out_ptr, tl.sum(tl.load(partial_ptr + slot), axis=0))  # fault


def two_stage_sum(allocate):
    x, blocks = vector(), triton.cdiv(1500, 128)
    slots = triton.next_power_of_2(blocks)
    partials, out = allocate(slots), x.new_empty(1)
    partial_sums[(blocks,)](x, partials, 1500, BLOCK=128)
    finish_slots[(1,)](partials, out, SLOTS=slots)
    return out


@triton.jit
def smooth_row(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    start = x_ptr + row * x_stride + c
    mask = c < cols
    left = tl.load(start, mask=mask)  # fault
    middle = tl.load(start + 1, mask=mask)
    right = tl.load(start + 2, mask=mask)  # fault
    tl.store(out_ptr + row * out_stride + c, (left + middle + right) / 3, mask=mask)


def smoothed(allocate):
    x, framed, out = matrix(), allocate(37, 95), torch.empty(37, 93)
    framed[:, 1:94] = x
    smooth_row[(37,)](framed, out, framed.stride(0), out.stride(0), 93, BLOCK=128)
    return out


def smoothed_expected():
    x = torch.nn.functional.pad(matrix().double(), (1, 1))
    return x.unfold(1, 3, 1).mean(2)


@triton.jit
def split_k_product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.program_id(2) * BK + tl.arange(0, BK)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b), mask=inside)  # fault


def split_k(allocate):
    a, b = small_integers()
    c = allocate((50, 40), dtype=torch.int32)
    split_k_product[(2, 2, 3)](a, b, c, 50, 40, 96, BM=32, BN=32, BK=32)
    return c


@triton.jit
def count_large(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(count_ptr, tl.sum((x > 1.0).to(tl.int32), axis=0))  # fault


def counted(allocate):
    x, result = vector(), allocate(1, dtype=torch.int32)
    count_large[(triton.cdiv(1500, 256),)](x, result, 1500, BLOCK=256)
    return result


@triton.jit
def decode_whole_cache(q_ptr, k_ptr, v_ptr, o_ptr, length, scale, CAPACITY: tl.constexpr, D: tl.constexpr):
    head, d, t = tl.program_id(0), tl.arange(0, D), tl.arange(0, CAPACITY)
    place = (head * CAPACITY + t)[:, None] * D + d[None, :]
    q = tl.load(q_ptr + head * D + d)
    s = tl.sum(q[None, :] * tl.load(k_ptr + place), axis=1) * scale  # fault
    s = tl.where(t < length, s, float("-inf"))
    p = tl.exp(s - tl.max(s, axis=0))
    p /= tl.sum(p, axis=0)
    v = tl.load(v_ptr + place, mask=t[:, None] < length, other=0.0)
    tl.store(o_ptr + head * D + d, tl.sum(p[:, None] * v, axis=0))


@triton.jit
def decode_filled_cache(q_ptr, k_ptr, v_ptr, o_ptr, length, scale, CAPACITY: tl.constexpr, D: tl.constexpr):
    head, d, t = tl.program_id(0), tl.arange(0, D), tl.arange(0, CAPACITY)
    place = (head * CAPACITY + t)[:, None] * D + d[None, :]
    q = tl.load(q_ptr + head * D + d)
    s = tl.sum(q[None, :] * tl.load(k_ptr + place, mask=t[:, None] < length, other=0.0), axis=1) * scale
    s = tl.where(t < length, s, float("-inf"))
    p = tl.exp(s - tl.max(s, axis=0))
    p /= tl.sum(p, axis=0)
    v = tl.load(v_ptr + place, mask=t[:, None] < length, other=0.0)
    tl.store(o_ptr + head * D + d, tl.sum(p[:, None] * v, axis=0))


def cached():
    return normal(3, 32, seed=12), normal(3, 41, 32, seed=13), normal(3, 41, 32, seed=14)


def decode(kernel):
    q, k, v = cached()
    k_cache, v_cache, out = torch.empty(3, 64, 32), torch.empty(3, 64, 32), torch.empty_like(q)
    k_cache[:, :41], v_cache[:, :41] = k, v
    kernel[(3,)](q, k_cache, v_cache, out, 41, 32**-0.5, CAPACITY=64, D=32)
    return out


def decoded():
    q, k, v = (t.double() for t in cached())
    p = torch.softmax(torch.einsum("hd,htd->ht", q, k) * 32**-0.5, dim=1)
    return torch.einsum("ht,htd->hd", p, v)


@triton.jit
def row_products(weights_ptr, upstream_ptr, delta_ptr, S, BLOCK: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, BLOCK)
    weights = tl.load(weights_ptr + row * S + n, mask=n < S, other=0.0)
    upstream = tl.load(upstream_ptr + row * S + n, mask=n < S, other=0.0)
    tl.store(delta_ptr + row, tl.sum(weights * upstream, axis=0))


@triton.jit
def score_gradients(weights_ptr, upstream_ptr, delta_ptr, out_ptr, S, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    place, inside = m[:, None] * S + n[None, :], (m[:, None] < S) & (n[None, :] < S)
    delta = tl.load(delta_ptr + m, mask=m < S)  # fault
    weights, upstream = tl.load(weights_ptr + place, mask=inside), tl.load(upstream_ptr + place, mask=inside)
    tl.store(out_ptr + place, weights * (upstream - delta[:, None]), mask=inside)


def attention_weights():
    q, k, upstream = heads()
    return torch.softmax(q @ k.T, dim=1), upstream @ k.T


def attention_backward(with_delta):
    weights, upstream = attention_weights()
    delta, out = weights.new_empty(50), torch.empty_like(weights)
    if with_delta:
        row_products[(50,)](weights, upstream, delta, 50, BLOCK=64)
    score_gradients[(4,)](weights, upstream, delta, out, 50, BM=16, BN=64)
    return out


def score_gradients_expected():
    weights, upstream = (t.double() for t in attention_weights())
    return weights * (upstream - (weights * upstream).sum(1, keepdim=True))


@triton.jit
def decayed(old, new, keep):
    return old * keep + new * (1 - keep)


@triton.jit
def update_statistic(state_ptr, column, value, keep):
    tl.store(state_ptr + column, decayed(tl.load(state_ptr + column), value, keep))  # fault


@triton.jit
def update_running_mean(x_ptr, mean_ptr, rows, stride, keep, BLOCK: tl.constexpr):
    column, r = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * stride + column, mask=r < rows, other=0.0)
    update_statistic(mean_ptr, column, tl.sum(x, axis=0) / rows, keep)


def running_mean(allocate):
    x, mean = matrix(), allocate(93)
    update_running_mean[(93,)](x, mean, 37, x.stride(0), 0.9, BLOCK=64)
    return mean


@triton.jit
def slot_of(step, slots):
    return step % slots


@triton.jit
def previous(history_ptr, step, slots, width, c):
    return tl.load(history_ptr + slot_of(step + 1, slots) * width + c, mask=c < width)  # fault


@triton.jit
def previous_step(history_ptr, step, slots, width, c):
    return tl.load(history_ptr + slot_of(step - 1, slots) * width + c, mask=c < width)


@triton.jit
def momentum_wrong_slot(history_ptr, gradient_ptr, out_ptr, step, slots, width, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    old = previous(history_ptr, step, slots, width, c)
    tl.store(out_ptr + c, old * 0.5 + tl.load(gradient_ptr + c, mask=c < width), mask=c < width)


@triton.jit
def momentum(history_ptr, gradient_ptr, out_ptr, step, slots, width, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    old = previous_step(history_ptr, step, slots, width, c)
    tl.store(out_ptr + c, old * 0.5 + tl.load(gradient_ptr + c, mask=c < width), mask=c < width)


def with_momentum(kernel):
    history, gradient, out = torch.empty(4, 700), terms()[2], torch.empty(700)
    history[:2] = terms()[:2]
    kernel[(triton.cdiv(700, 256),)](history, gradient, out, 2, 4, 700, BLOCK=256)
    return out


def allocation(name, shape, launch, kernel, expected):
    """The launcher forgot to zero what the kernel accumulates into."""
    return Seeded(
        KIND, name, shape, partial(launch, torch.empty), partial(launch, torch.zeros), kernel, expected=expected
    )


CASES = (
    allocation("accumulator is never zeroed", "vector", accumulated, (accumulate,), lambda: terms().double().sum(0)),
    allocation(
        "slots rounded up",
        "vector",
        two_stage_sum,
        (finish_slots,),
        lambda: vector().double().square().sum().reshape(1),
    ),
    seeded(
        "slot of the next step",
        "vector",
        with_momentum,
        (momentum_wrong_slot, momentum),
        lambda: terms()[1].double() * 0.5 + terms()[2].double(),
        (previous,),
    ),
    allocation("frame around the rows", "row", smoothed, (smooth_row,), smoothed_expected),
    allocation(
        "running mean has no start", "row", running_mean, (update_statistic,), lambda: matrix().double().mean(0) * 0.1
    ),
    allocation("split K adds to nothing", "matmul", split_k, (split_k_product,), integer_product),
    seeded("whole cache", "attention", decode, (decode_whole_cache, decode_filled_cache), decoded),
    Seeded(
        KIND,
        "first pass of the backward is forgotten",
        "attention",
        partial(attention_backward, False),
        partial(attention_backward, True),
        (score_gradients,),
        expected=score_gradients_expected,
    ),
    allocation("counter is never zeroed", "atomic", counted, (count_large,), lambda: (vector() > 1).sum()),
)
