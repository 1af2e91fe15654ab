"""Rows without a valid lane, and padded lanes that enter a reduction as if they were data."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import attended, factors, heads, matrix, normal, row_values, rows, vector
from tests.corpus.model import pair

seeded = partial(pair, "all-masked-row")


@triton.jit
def softmax_of_length(x_ptr, length_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    length = tl.load(length_ptr + row)
    x = tl.load(x_ptr + row * cols + c, mask=c < length, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))  # fault
    tl.store(out_ptr + row * cols + c, e / tl.sum(e, axis=0), mask=c < cols)


@triton.jit
def softmax_of_any_length(x_ptr, length_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    length = tl.load(length_ptr + row)
    x = tl.load(x_ptr + row * cols + c, mask=c < length, other=float("-inf"))
    e = tl.exp(x - tl.where(length > 0, tl.max(x, axis=0), 0.0))
    tl.store(out_ptr + row * cols + c, e / tl.where(length > 0, tl.sum(e, axis=0), 1.0), mask=c < cols)


def lengths():
    return (torch.arange(37, dtype=torch.int32) * 7) % 94 * (torch.arange(37) != 20)


def ragged_softmax(kernel):
    x = matrix()
    out = torch.empty_like(x)
    kernel[(37,)](x, lengths().int(), out, 93, BLOCK=128)
    return out


def ragged_softmax_expected():
    kept = torch.arange(93) < lengths()[:, None]
    return torch.softmax(matrix().double().masked_fill(~kept, -1e300), dim=1) * kept


@triton.jit
def quotient(total, weight):
    return total / weight  # fault


@triton.jit
def weighted_mean(x, weights):
    return quotient(tl.sum(x * weights, axis=0), tl.sum(weights, axis=0))


@triton.jit
def pool_tokens(x_ptr, valid_ptr, out_ptr, S, width, BLOCK: tl.constexpr):
    batch, column, t = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    valid = tl.load(valid_ptr + batch * S + t, mask=t < S, other=0.0)
    x = tl.load(x_ptr + (batch * S + t) * width + column, mask=t < S, other=0.0)
    tl.store(out_ptr + batch * width + column, weighted_mean(x, valid))


@triton.jit
def quotient_or_zero(total, weight):
    return total / tl.where(weight == 0, 1.0, weight)


@triton.jit
def weighted_mean_or_zero(x, weights):
    return quotient_or_zero(tl.sum(x * weights, axis=0), tl.sum(weights, axis=0))


@triton.jit
def pool_any_tokens(x_ptr, valid_ptr, out_ptr, S, width, BLOCK: tl.constexpr):
    batch, column, t = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    valid = tl.load(valid_ptr + batch * S + t, mask=t < S, other=0.0)
    x = tl.load(x_ptr + (batch * S + t) * width + column, mask=t < S, other=0.0)
    tl.store(out_ptr + batch * width + column, weighted_mean_or_zero(x, valid))


def tokens():
    valid = (torch.arange(21) < torch.tensor([[21], [0], [9], [4]])).float()
    return normal(4, 21, 10, seed=71), valid


def pool(kernel):
    (x, valid), out = tokens(), torch.empty(4, 10)
    kernel[(4, 10)](x, valid, out, 21, 10, BLOCK=32)
    return out


def pooled():
    x, valid = (t.double() for t in tokens())
    return (x * valid[:, :, None]).sum(1) / valid.sum(1, keepdim=True).clamp(min=1)


@triton.jit
def attend_in_window(q_ptr, k_ptr, v_ptr, o_ptr, S, W, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float32), tl.zeros((BM, D), dtype=tl.float32)
    first = tl.maximum(tl.program_id(0) * BM - W + 1, 0) // BN * BN
    for start in range(first, tl.minimum(tl.program_id(0) * BM + BM, S), BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        seen = (n[None, :] <= m[:, None]) & (n[None, :] > m[:, None] - W) & (n[None, :] < S)
        s = tl.where(seen, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.exp(s - new_peak[:, None])  # fault
        shrink = tl.exp(peak - new_peak)  # fault
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
    total = tl.where(total == 0, 1.0, total)
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


@triton.jit
def attend_in_any_window(q_ptr, k_ptr, v_ptr, o_ptr, S, W, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float32), tl.zeros((BM, D), dtype=tl.float32)
    first = tl.maximum(tl.program_id(0) * BM - W + 1, 0) // BN * BN
    for start in range(first, tl.minimum(tl.program_id(0) * BM + BM, S), BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        seen = (n[None, :] <= m[:, None]) & (n[None, :] > m[:, None] - W) & (n[None, :] < S)
        s = tl.where(seen, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        level = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        p = tl.exp(s - level[:, None])
        shrink = tl.exp(peak - level)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
    total = tl.where(total == 0, 1.0, total)
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


def windowed(kernel):
    q, k, v = heads()
    out = torch.empty_like(q)
    kernel[(2,)](q, k, v, out, 50, 9, 32**-0.5, D=32, BM=32, BN=16)
    return out


def windowed_expected():
    q, k, v = (t.double() for t in heads())
    distance = torch.arange(50)[:, None] - torch.arange(50)
    s = (q @ k.T * 32**-0.5).masked_fill((distance < 0) | (distance >= 9), float("-inf"))
    return torch.softmax(s, dim=1) @ v


@triton.jit
def attend_padded_keys(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, n, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
    v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
    s = tl.dot(q, k, input_precision="ieee") * scale
    p = tl.exp(s - tl.max(s, axis=1)[:, None])  # fault
    total = tl.sum(p, axis=1)  # fault
    o = tl.dot(p, v, input_precision="ieee") / total[:, None]
    tl.store(o_ptr + m[:, None] * D + d[None, :], o, mask=m[:, None] < S)


@triton.jit
def attend_own_keys(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, n, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
    v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
    s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
    p = tl.exp(s - tl.max(s, axis=1)[:, None])
    total = tl.sum(p, axis=1)
    o = tl.dot(p, v, input_precision="ieee") / total[:, None]
    tl.store(o_ptr + m[:, None] * D + d[None, :], o, mask=m[:, None] < S)


def attend(kernel):
    q, k, v = heads()
    out = torch.empty_like(q)
    kernel[(2,)](q, k, v, out, 50, 32**-0.5, D=32, BM=32, BN=64)
    return out


@triton.jit
def softmax_padded_with_zeros(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)  # fault
    e = tl.exp(x - tl.max(x, axis=0))  # fault
    tl.store(out_ptr + row * out_stride + c, e / tl.sum(e, axis=0), mask=c < cols)  # fault


@triton.jit
def softmax_padded_with_nothing(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + c, e / tl.sum(e, axis=0), mask=c < cols)


@triton.jit
def variance_of_padded(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    centred = x - tl.sum(x, axis=0) / cols  # fault
    tl.store(out_ptr + row, tl.sum(centred * centred, axis=0) / cols)  # fault


@triton.jit
def variance(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    centred = tl.where(c < cols, x - tl.sum(x, axis=0) / cols, 0.0)
    tl.store(out_ptr + row, tl.sum(centred * centred, axis=0) / cols)


def shifted():
    return matrix() + 2


@triton.jit
def peaks_with_zeros(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)  # fault
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))  # fault


@triton.jit
def peaks(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=float("-inf"))
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))


def negative():
    return -vector().abs() - 0.5


def block_values(make, kernel):
    out = torch.empty(6)
    kernel[(6,)](make(), out, 1500, BLOCK=256)
    return out


@triton.jit
def sum_of_growth(x, peak):
    return tl.sum(tl.exp(x - peak), axis=0)  # fault


@triton.jit
def log_of_sum(x):
    peak = tl.max(x, axis=0)
    return peak + tl.log(sum_of_growth(x, peak))


@triton.jit
def block_lse_padded(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)  # fault
    tl.store(out_ptr + tl.program_id(0), log_of_sum(x))


@triton.jit
def sum_of_exponentials(x, peak):
    return tl.sum(tl.exp(x - peak), axis=0)


@triton.jit
def log_of_exponentials(x):
    peak = tl.max(x, axis=0)
    return peak + tl.log(sum_of_exponentials(x, peak))


@triton.jit
def block_lse(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=float("-inf"))
    tl.store(out_ptr + tl.program_id(0), log_of_exponentials(x))


@triton.jit
def logits_lse_padded(a_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    s = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        s = tl.dot(a, b, s, input_precision="ieee")
    peak = tl.max(s, axis=1)  # fault
    total = tl.sum(tl.exp(s - peak[:, None]), axis=1)  # fault
    tl.store(out_ptr + m, peak + tl.log(total), mask=m < M)


@triton.jit
def logits_lse(a_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    s = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        s = tl.dot(a, b, s, input_precision="ieee")
    s = tl.where(n[None, :] < N, s, float("-inf"))
    peak = tl.max(s, axis=1)
    total = tl.sum(tl.exp(s - peak[:, None]), axis=1)
    tl.store(out_ptr + m, peak + tl.log(total), mask=m < M)


def mild_factors():
    a, b = factors()
    return a / 16, b


def lse_of_logits(kernel):
    (a, b), out = mild_factors(), torch.empty(50)
    kernel[(2,)](a, b, out, 50, 40, 72, BM=32, BN=64, BK=32)
    return out


@triton.jit
def count_padded(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)  # fault
    tl.atomic_add(count_ptr, tl.sum((x < 0.5).to(tl.int32), axis=0))  # fault


@triton.jit
def count(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1.0)
    tl.atomic_add(count_ptr, tl.sum((x < 0.5).to(tl.int32), axis=0))


def count_small(kernel):
    result = torch.zeros(1, dtype=torch.int32)
    kernel[(6,)](vector(), result, 1500, BLOCK=256)
    return result


CASES = (
    seeded(
        "maximum with zero among negatives",
        "vector",
        partial(block_values, negative),
        (peaks_with_zeros, peaks),
        lambda: torch.stack([part.max() for part in negative().double().split(256)]),
    ),
    seeded(
        "padded logarithm of a sum through helpers",
        "vector",
        partial(block_values, vector),
        (block_lse_padded, block_lse),
        lambda: torch.stack([part.logsumexp(0) for part in vector().double().split(256)]),
        (block_lse_padded, sum_of_growth),
    ),
    seeded(
        "row of length zero", "row", ragged_softmax, (softmax_of_length, softmax_of_any_length), ragged_softmax_expected
    ),
    seeded("mean of no token through helpers", "row", pool, (pool_tokens, pool_any_tokens), pooled, (quotient,)),
    seeded(
        "softmax padded with zeros",
        "row",
        partial(rows, matrix),
        (softmax_padded_with_zeros, softmax_padded_with_nothing),
        lambda: matrix().double().softmax(1),
    ),
    seeded(
        "variance of padded lanes",
        "row",
        partial(row_values, shifted),
        (variance_of_padded, variance),
        lambda: shifted().double().var(1, correction=0),
    ),
    seeded(
        "columns past the logits",
        "matmul",
        lse_of_logits,
        (logits_lse_padded, logits_lse),
        lambda: (mild_factors()[0].double() @ mild_factors()[1].double()).logsumexp(1),
    ),
    seeded(
        "block before the window", "attention", windowed, (attend_in_window, attend_in_any_window), windowed_expected
    ),
    seeded("keys past the sequence", "attention", attend, (attend_padded_keys, attend_own_keys), attended),
    seeded("count of padded lanes", "atomic", count_small, (count_padded, count), lambda: (vector() < 0.5).sum()),
)
