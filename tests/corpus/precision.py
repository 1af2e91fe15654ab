"""Sums, products and running means kept in a narrower type than their inputs deserve."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import normal
from tests.corpus.model import pair

seeded = partial(pair, "precision")


@triton.jit
def strided_sums_in_half(x_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float16)  # fault
    for start in range(0, n, tl.num_programs(0) * BLOCK):
        total += tl.load(x_ptr + start + lane, mask=start + lane < n, other=0.0)  # fault
    tl.store(sums_ptr + lane, total.to(tl.float32))


@triton.jit
def strided_sums(x_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, tl.num_programs(0) * BLOCK):
        total += tl.load(x_ptr + start + lane, mask=start + lane < n, other=0.0)
    tl.store(sums_ptr + lane, total.to(tl.float32))


def probabilities():
    return torch.rand(10_000, generator=torch.Generator().manual_seed(81)).half()


def sum_strided(kernel):
    sums = torch.empty(128)
    kernel[(2,)](probabilities(), sums, 10_000, BLOCK=64)
    return sums


@triton.jit
def step_in_bfloat(mean, x, count):
    return (mean + (x - mean) / count).to(tl.bfloat16)  # fault


@triton.jit
def mean_of_rows_in_bfloat(x_ptr, c, rows, width, BLOCK: tl.constexpr):
    mean = tl.zeros((BLOCK,), dtype=tl.bfloat16)  # fault
    for row in range(rows):
        mean = step_in_bfloat(mean, tl.load(x_ptr + row * width + c, mask=c < width, other=0.0), row + 1.0)
    return mean


@triton.jit
def means_in_bfloat(x_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + c, mean_of_rows_in_bfloat(x_ptr, c, rows, width, BLOCK).to(tl.float32), mask=c < width)


@triton.jit
def step(mean, x, count):
    return mean + (x - mean) / count


@triton.jit
def mean_of_rows(x_ptr, c, rows, width, BLOCK: tl.constexpr):
    mean = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(rows):
        mean = step(mean, tl.load(x_ptr + row * width + c, mask=c < width, other=0.0), row + 1.0)
    return mean


@triton.jit
def means(x_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + c, mean_of_rows(x_ptr, c, rows, width, BLOCK).to(tl.float32), mask=c < width)


def activations():
    return (normal(200, 100, seed=82) + 2).bfloat16()


def mean_over_rows(kernel):
    out = torch.empty(100)
    kernel[(2,)](activations(), out, 200, 100, BLOCK=64)
    return out


@triton.jit
def rms_norm_in_half(x_ptr, w_ptr, out_ptr, x_stride, cols, eps, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    mean_square = tl.sum(x * x, axis=0) / cols  # fault
    w = tl.load(w_ptr + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * cols + c, x * tl.rsqrt(mean_square.to(tl.float32) + eps) * w, mask=c < cols)


@triton.jit
def rms_norm(x_ptr, w_ptr, out_ptr, x_stride, cols, eps, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / cols
    w = tl.load(w_ptr + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * cols + c, x * tl.rsqrt(mean_square.to(tl.float32) + eps) * w, mask=c < cols)


def hidden():
    return (normal(9, 1900, seed=83) * 3).half(), normal(1900, seed=84)


def normalise(kernel):
    (x, w), out = hidden(), torch.empty(9, 1900)
    kernel[(9,)](x, w, out, x.stride(0), 1900, 1e-6, BLOCK=2048)
    return out


def normalised():
    x, w = (t.double() for t in hidden())
    return x * (x.square().mean(1, keepdim=True) + 1e-6).rsqrt() * w


@triton.jit
def cumulative_in_half(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * cols + c, tl.cumsum(x, axis=0).to(tl.float32), mask=c < cols)  # fault


@triton.jit
def cumulative(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * cols + c, tl.cumsum(x.to(tl.float32), axis=0), mask=c < cols)


def top_p_rows():
    return probabilities()[:4900].view(7, 700)


def accumulate_rows(kernel):
    out = torch.empty(7, 700)
    kernel[(7,)](top_p_rows(), out, 700, BLOCK=1024)
    return out


@triton.jit
def matmul_half_accumulator(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float16)  # fault
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b, out_dtype=tl.float16)  # fault
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float32), mask=inside)


@triton.jit
def matmul_float_accumulator(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.float32), mask=inside)


@triton.jit
def matmul_tf32(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in tl.range(0, K, BK, num_stages=3):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)  # fault
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_ieee(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in tl.range(0, K, BK, num_stages=3):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def long_factors(dtype):
    return normal(50, 600, seed=85).to(dtype), normal(600, 40, seed=86).to(dtype)


def multiply(dtype, kernel):
    (a, b), c = long_factors(dtype), torch.empty(50, 40)
    kernel[(2, 2)](a, b, c, 50, 40, 600, BM=32, BN=32, BK=64)
    return c


def multiplied(dtype):
    a, b = long_factors(dtype)
    return a.double() @ b.double()


@triton.jit
def attend_in_half(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float16), tl.zeros((BM, D), dtype=tl.float16)  # fault
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.exp(s - new_peak[:, None])
        shrink = tl.exp(peak - new_peak)
        total = (total * shrink + tl.sum(p, axis=1)).to(tl.float16)  # fault
        acc = (acc * shrink[:, None] + tl.dot(p.to(tl.float16), v)).to(tl.float16)  # fault
        peak = new_peak
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc.to(tl.float32) / total[:, None], mask=m[:, None] < S)


@triton.jit
def attend_in_float(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float32), tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.exp(s - new_peak[:, None])
        shrink = tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p.to(tl.float16), v)
        peak = new_peak
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc.to(tl.float32) / total[:, None], mask=m[:, None] < S)


def half_heads():
    return tuple(normal(400, 32, seed=seed).half() for seed in (87, 88, 89))


def attend(kernel):
    out = torch.empty(400, 32)
    kernel[(13,)](*half_heads(), out, 400, 32**-0.5, D=32, BM=32, BN=32)
    return out


def attended():
    q, k, v = (t.double() for t in half_heads())
    return torch.softmax(q @ k.T * 32**-0.5, dim=1) @ v


@triton.jit
def products_tf32(q, k):
    return tl.dot(q, k)  # fault


@triton.jit
def log_weights_tf32(q, k, scale, n, S):
    return tl.where(n[None, :] < S, products_tf32(q, k) * scale, float("-inf"))


@triton.jit
def peaks_tf32(q_ptr, k_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        peak = tl.maximum(peak, tl.max(log_weights_tf32(q, k, scale, n, S), axis=1))
    tl.store(o_ptr + m, peak, mask=m < S)


@triton.jit
def products_ieee(q, k):
    return tl.dot(q, k, input_precision="ieee")


@triton.jit
def log_weights_ieee(q, k, scale, n, S):
    return tl.where(n[None, :] < S, products_ieee(q, k) * scale, float("-inf"))


@triton.jit
def peaks_ieee(q_ptr, k_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        peak = tl.maximum(peak, tl.max(log_weights_ieee(q, k, scale, n, S), axis=1))
    tl.store(o_ptr + m, peak, mask=m < S)


def wide_heads():
    return normal(50, 256, seed=90), normal(50, 256, seed=91)


def attention_peaks(kernel):
    out = torch.empty(50)
    kernel[(2,)](*wide_heads(), out, 50, 1.0, D=256, BM=32, BN=32)
    return out


@triton.jit
def largest_norm_in_half(x_ptr, peak_ptr, cols, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), tl.zeros((BLOCK,), dtype=tl.float16)  # fault
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
        total += x * x  # fault
    tl.atomic_max(peak_ptr, tl.sum(total.to(tl.float32), axis=0))


@triton.jit
def largest_norm(x_ptr, peak_ptr, cols, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
        total += x * x
    tl.atomic_max(peak_ptr, tl.sum(total.to(tl.float32), axis=0))


def largest(kernel):
    peak = torch.zeros(1)
    kernel[(9,)](hidden()[0], peak, 1900, BLOCK=64)
    return peak


HALF, FLOAT = torch.float16, torch.float32
CASES = (
    seeded(
        "sums over a stride",
        "vector",
        sum_strided,
        (strided_sums_in_half, strided_sums),
        lambda: torch.nn.functional.pad(probabilities().double(), (0, 112)).view(-1, 128).sum(0),
    ),
    seeded(
        "running mean through helpers",
        "vector",
        mean_over_rows,
        (means_in_bfloat, means),
        lambda: activations().double().mean(0),
        (step_in_bfloat, mean_of_rows_in_bfloat),
    ),
    seeded("squares of a row", "row", normalise, (rms_norm_in_half, rms_norm), normalised),
    seeded(
        "prefix sums", "row", accumulate_rows, (cumulative_in_half, cumulative), lambda: top_p_rows().double().cumsum(1)
    ),
    seeded(
        "half accumulator",
        "matmul",
        partial(multiply, HALF),
        (matmul_half_accumulator, matmul_float_accumulator),
        partial(multiplied, HALF),
    ),
    seeded(
        "tf32 by default", "matmul", partial(multiply, FLOAT), (matmul_tf32, matmul_ieee), partial(multiplied, FLOAT)
    ),
    seeded("online softmax", "attention", attend, (attend_in_half, attend_in_float), attended),
    seeded(
        "tf32 scores through helpers",
        "attention",
        attention_peaks,
        (peaks_tf32, peaks_ieee),
        lambda: (wide_heads()[0].double() @ wide_heads()[1].double().T).amax(1),
        (products_tf32,),
    ),
    seeded(
        "norm before an atomic maximum",
        "atomic",
        largest,
        (largest_norm_in_half, largest_norm),
        lambda: hidden()[0].double().square().sum(1).amax().reshape(1),
    ),
)
