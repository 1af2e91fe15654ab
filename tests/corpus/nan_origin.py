"""A NaN or an infinity that an operation makes from finite numbers."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import normal, row_values, rows, unary
from tests.corpus.model import pair

seeded = partial(pair, "nan-origin")


@triton.jit
def softplus_direct(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.log(1 + tl.exp(x)), mask=i < n)  # fault


@triton.jit
def softplus_folded(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.maximum(x, 0.0) + tl.log(1 + tl.exp(-tl.abs(x))), mask=i < n)


def wide():
    return normal(1500, seed=51) * 60


@triton.jit
def softmax_without_peak(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(x)  # fault
    tl.store(out_ptr + row * out_stride + c, e / tl.sum(e, axis=0), mask=c < cols)


@triton.jit
def softmax_with_peak(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + c, e / tl.sum(e, axis=0), mask=c < cols)


def logits():
    return normal(29, 77, seed=52) * 50


@triton.jit
def standardise_exactly(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    centred = tl.where(c < cols, x - tl.sum(x, axis=0) / cols, 0.0)
    deviation = tl.sqrt(tl.sum(centred * centred, axis=0) / cols)
    tl.store(out_ptr + row * out_stride + c, centred / deviation, mask=c < cols)  # fault


@triton.jit
def standardise_with_eps(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    centred = tl.where(c < cols, x - tl.sum(x, axis=0) / cols, 0.0)
    deviation = tl.sqrt(tl.sum(centred * centred, axis=0) / cols + 1e-5)
    tl.store(out_ptr + row * out_stride + c, centred / deviation, mask=c < cols)


def with_constant_row():
    x = normal(29, 77, seed=53)
    x[11] = 0.5
    return x


def standardised():
    x = with_constant_row().double()
    centred = x - x.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()


@triton.jit
def deviation_of_moments(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    mean = tl.sum(x, axis=0) / cols
    variance = tl.sum(x * x, axis=0) / cols - mean * mean
    tl.store(out_ptr + row, tl.sqrt(variance))  # fault


@triton.jit
def deviation_of_centred(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    centred = tl.where(c < cols, x - tl.sum(x, axis=0) / cols, 0.0)
    variance = tl.sum(centred * centred, axis=0) / cols
    tl.store(out_ptr + row, tl.sqrt(variance))


def far_from_zero():
    return normal(29, 77, seed=54) * 0.1 + 3000


@triton.jit
def mean_square_narrow(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((32,), dtype=tl.float32)
    for start in range(0, cols, 32):
        c = start + tl.arange(0, 32)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
        total += (x * x).to(tl.float32)  # fault
    tl.store(out_ptr + row, (tl.sum(total, axis=0) / cols / 65536).to(tl.float16))


@triton.jit
def mean_square_wide(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((32,), dtype=tl.float32)
    for start in range(0, cols, 32):
        c = start + tl.arange(0, 32)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0).to(tl.float32)
        total += (x * x).to(tl.float32)
    tl.store(out_ptr + row, (tl.sum(total, axis=0) / cols / 65536).to(tl.float16))


def halves():
    return (normal(29, 77, seed=55) * 300).half()


@triton.jit
def matmul_to_half(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    c = acc.to(tl.float16)  # fault
    tl.store(c_ptr + m[:, None] * N + n[None, :], c, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_clamped_to_half(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    c = tl.clamp(acc, -65504.0, 65504.0).to(tl.float16)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c, mask=(m[:, None] < M) & (n[None, :] < N))


def half_factors():
    return (normal(50, 72, seed=56) * 60).half(), (normal(72, 40, seed=57) * 100).half()


def half_product(kernel):
    (a, b), c = half_factors(), torch.empty(50, 40, dtype=torch.float16)
    kernel[(2, 2)](a, b, c, 50, 40, 72, BM=32, BN=32, BK=32)
    return c


def half_product_expected():
    a, b = half_factors()
    return (a.double() @ b.double()).clamp(-65504, 65504)


@triton.jit
def merge_plainly(first_ptr, second_ptr, lse_ptr, o_ptr, S, D: tl.constexpr):
    row, d = tl.program_id(0), tl.arange(0, D)
    first, second = tl.load(lse_ptr + row), tl.load(lse_ptr + S + row)
    weight = tl.exp(first) / (tl.exp(first) + tl.exp(second))  # fault
    o = weight * tl.load(first_ptr + row * D + d) + (1 - weight) * tl.load(second_ptr + row * D + d)
    tl.store(o_ptr + row * D + d, o)


@triton.jit
def merge_by_difference(first_ptr, second_ptr, lse_ptr, o_ptr, S, D: tl.constexpr):
    row, d = tl.program_id(0), tl.arange(0, D)
    first, second = tl.load(lse_ptr + row), tl.load(lse_ptr + S + row)
    weight = 1 / (1 + tl.exp(tl.minimum(second - first, 80.0)))
    o = weight * tl.load(first_ptr + row * D + d) + (1 - weight) * tl.load(second_ptr + row * D + d)
    tl.store(o_ptr + row * D + d, o)


def parts():
    return normal(33, 32, seed=61), normal(33, 32, seed=62), normal(2, 33, seed=63) * 8 + 90


def merge(kernel):
    first, second, lse = parts()
    out = torch.empty_like(first)
    kernel[(33,)](first, second, lse, out, 33, D=32)
    return out


def merged():
    first, second, lse = (t.double() for t in parts())
    weight = torch.softmax(lse, dim=0)[:, :, None]
    return weight[0] * first + weight[1] * second


@triton.jit
def count_labels(labels_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + tl.load(labels_ptr + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def entropy_of_all(counts_ptr, out_ptr, n, BINS: tl.constexpr):
    p = tl.load(counts_ptr + tl.arange(0, BINS)).to(tl.float32) / n
    tl.store(out_ptr, -tl.sum(p * tl.log(p), axis=0))  # fault


@triton.jit
def entropy_of_seen(counts_ptr, out_ptr, n, BINS: tl.constexpr):
    p = tl.load(counts_ptr + tl.arange(0, BINS)).to(tl.float32) / n
    tl.store(out_ptr, -tl.sum(p * tl.log(tl.where(p > 0, p, 1.0)), axis=0))


def labels():
    torch.manual_seed(64)
    return torch.randint(0, 13, (700,), dtype=torch.int32)


def entropy(kernel):
    counts, out = torch.zeros(16, dtype=torch.int32), torch.empty(1)
    count_labels[(3,)](labels(), counts, 700, BLOCK=256)
    kernel[(1,)](counts, out, 700, BINS=16)
    return out


def entropy_expected():
    p = torch.bincount(labels()).double() / 700
    return -torch.special.xlogy(p, p).sum().reshape(1)


@triton.jit
def tanh_by_growth(x):
    e = tl.exp(2 * x)  # fault
    return (e - 1) / (e + 1)


@triton.jit
def gelu_by_growth(x):
    return 0.5 * x * (1 + tanh_by_growth(0.7978845608 * (x + 0.044715 * x * x * x)))


@triton.jit
def gelu_wide_overflows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, gelu_by_growth(tl.load(x_ptr + i, mask=i < n, other=0.0)), mask=i < n)


@triton.jit
def tanh_by_decay(x):
    e = tl.exp(-2 * tl.abs(x))
    return tl.where(x < 0, -1.0, 1.0) * (1 - e) / (1 + e)


@triton.jit
def gelu_by_decay(x):
    return 0.5 * x * (1 + tanh_by_decay(0.7978845608 * (x + 0.044715 * x * x * x)))


@triton.jit
def gelu_wide(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, gelu_by_decay(tl.load(x_ptr + i, mask=i < n, other=0.0)), mask=i < n)


@triton.jit
def inverse_length(squares):
    return tl.rsqrt(squares)  # fault


@triton.jit
def unit(x):
    return x * inverse_length(tl.sum(x * x, axis=0))


@triton.jit
def units_of_any(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * out_stride + c, unit(x), mask=c < cols)


@triton.jit
def inverse_length_bounded(squares):
    return tl.rsqrt(tl.maximum(squares, 1e-12))


@triton.jit
def unit_or_zero(x):
    return x * inverse_length_bounded(tl.sum(x * x, axis=0))


@triton.jit
def units(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * out_stride + c, unit_or_zero(x), mask=c < cols)


def with_zero_row():
    x = normal(29, 77, seed=65)
    x[7] = 0.0
    return x


CASES = (
    seeded(
        "exponential of a large number",
        "vector",
        partial(unary, wide),
        (softplus_direct, softplus_folded),
        lambda: torch.nn.functional.softplus(wide().double()),
    ),
    seeded(
        "growth through helpers",
        "vector",
        partial(unary, wide),
        (gelu_wide_overflows, gelu_wide),
        lambda: torch.nn.functional.gelu(wide().double(), approximate="tanh"),
        (tanh_by_growth,),
    ),
    seeded(
        "softmax without the peak",
        "row",
        partial(rows, logits),
        (softmax_without_peak, softmax_with_peak),
        lambda: logits().double().softmax(1),
    ),
    seeded(
        "zero by zero in a constant row",
        "row",
        partial(rows, with_constant_row),
        (standardise_exactly, standardise_with_eps),
        standardised,
    ),
    seeded(
        "root of a negative variance",
        "row",
        partial(row_values, far_from_zero),
        (deviation_of_moments, deviation_of_centred),
        lambda: far_from_zero().double().std(1, correction=0),
    ),
    seeded(
        "square in half precision",
        "row",
        partial(row_values, halves),
        (mean_square_narrow, mean_square_wide),
        lambda: halves().double().square().mean(1) / 65536,
    ),
    seeded(
        "length of nothing through helpers",
        "row",
        partial(rows, with_zero_row),
        (units_of_any, units),
        lambda: torch.nn.functional.normalize(with_zero_row().double()),
        (inverse_length,),
    ),
    seeded(
        "product too large for half",
        "matmul",
        half_product,
        (matmul_to_half, matmul_clamped_to_half),
        half_product_expected,
    ),
    seeded("merge of two parts", "attention", merge, (merge_plainly, merge_by_difference), merged),
    seeded("logarithm of an empty bin", "atomic", entropy, (entropy_of_all, entropy_of_seen), entropy_expected),
)
