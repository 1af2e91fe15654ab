"""Work for nothing: masks that are always true, loads repeated, stores overwritten before they are read."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import attended, attention, factors, matrix, normal, product, row_values
from tests.corpus.model import pair

seeded = partial(pair, "contract")


@triton.jit
def square_masked_by_block(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    i = tl.program_id(0) * BLOCK + lane
    x = tl.load(x_ptr + i, mask=lane < BLOCK, other=0.0)  # fault
    tl.store(out_ptr + i, x * x)


@triton.jit
def square(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    i = tl.program_id(0) * BLOCK + lane
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * x)


def whole_blocks():
    return normal(2048, seed=191)


def square_blocks(kernel):
    x, out = whole_blocks(), torch.empty(2048)
    kernel[(4,)](x, out, BLOCK=512)
    return out


@triton.jit
def wrapped(i, n):
    return i % n


@triton.jit
def load_wrapped_masked(x_ptr, i, n):
    j = wrapped(i, n)
    return tl.load(x_ptr + j, mask=j < n, other=0.0)  # fault


@triton.jit
def roll_masked(x_ptr, out_ptr, n, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, load_wrapped_masked(x_ptr, i + shift, n), mask=i < n)


@triton.jit
def load_wrapped(x_ptr, i, n):
    j = wrapped(i, n)
    return tl.load(x_ptr + j)


@triton.jit
def roll(x_ptr, out_ptr, n, shift, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, load_wrapped(x_ptr, i + shift, n), mask=i < n)


def roll_by_700(kernel):
    x, out = normal(1500, seed=192), torch.empty(1500)
    kernel[(triton.cdiv(1500, 256),)](x, out, 1500, 700, BLOCK=256)
    return out


@triton.jit
def hinge_after_zero(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.zeros((BLOCK,), dtype=tl.float32), mask=i < n)  # fault
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.maximum(1 - x, 0.0), mask=i < n)


@triton.jit
def hinge(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.maximum(1 - x, 0.0), mask=i < n)


def hinge_loss(kernel):
    x, out = normal(1500, seed=193), torch.empty(1500)
    kernel[(triton.cdiv(1500, 256),)](x, out, 1500, BLOCK=256)
    return out


@triton.jit
def scale_row_reloading(x_ptr, scale_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
        scale = tl.load(scale_ptr + row)  # fault
        tl.store(out_ptr + row * cols + c, x * scale, mask=c < cols)


@triton.jit
def scale_row(x_ptr, scale_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    scale = tl.load(scale_ptr + row)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
        tl.store(out_ptr + row * cols + c, x * scale, mask=c < cols)


def scales():
    return normal(37, seed=194)


def scale_rows(kernel):
    out = torch.empty(37, 93)
    kernel[(37,)](matrix(), scales(), out, 93, BLOCK=16)
    return out


@triton.jit
def log_sum_storing_each(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, peak, total = tl.program_id(0), float("-inf"), 0.0
    for start in range(0, cols, 32):
        c = start + tl.arange(0, 32)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=float("-inf"))
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp(peak - new_peak) + tl.sum(tl.exp(x - new_peak), axis=0)
        peak = new_peak
        tl.store(out_ptr + row, peak + tl.log(total))  # fault


@triton.jit
def log_sum(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, peak, total = tl.program_id(0), float("-inf"), 0.0
    for start in range(0, cols, 32):
        c = start + tl.arange(0, 32)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=float("-inf"))
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp(peak - new_peak) + tl.sum(tl.exp(x - new_peak), axis=0)
        peak = new_peak
    tl.store(out_ptr + row, peak + tl.log(total))


@triton.jit
def keep(out_ptr, row, value):
    tl.store(out_ptr + row, value)  # fault


@triton.jit
def take_and_keep(best, x, out_ptr, row):
    best = tl.maximum(best, tl.max(tl.abs(x), axis=0))
    keep(out_ptr, row, best)
    return best


@triton.jit
def amax_keeping_each(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, best = tl.program_id(0), 0.0
    for start in range(0, cols, 32):
        c = start + tl.arange(0, 32)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
        best = take_and_keep(best, x, out_ptr, row)


@triton.jit
def larger(best, value):
    return tl.maximum(best, value)


@triton.jit
def take(best, x):
    return larger(best, tl.max(tl.abs(x), axis=0))


@triton.jit
def amax(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, best = tl.program_id(0), 0.0
    for start in range(0, cols, 32):
        c = start + tl.arange(0, 32)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
        best = take(best, x)
    tl.store(out_ptr + row, best)


@triton.jit
def bias_matmul_reloading(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    for first in range(0, N, BN):
        n, acc = first + tl.arange(0, BN), tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
            b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
        acc += tl.load(bias_ptr + m, mask=m < M, other=0.0)[:, None]  # fault
        tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def bias_matmul(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    bias = tl.load(bias_ptr + m, mask=m < M, other=0.0)
    for first in range(0, N, BN):
        n, acc = first + tl.arange(0, BN), tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
            b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
        acc += bias[:, None]
        tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def multiply_with_bias(kernel):
    (a, b), c = factors(), torch.empty(50, 40)
    kernel[(2,)](a, b, normal(50, seed=195), c, 50, 40, 72, BM=32, BN=16, BK=32)
    return c


@triton.jit
def attend_reloading(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float32), tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)  # fault
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p, shrink = tl.exp(s - new_peak[:, None]), tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


@triton.jit
def attend_storing_each(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float32), tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p, shrink = tl.exp(s - new_peak[:, None]), tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
        tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)  # fault


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float32), tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p, shrink = tl.exp(s - new_peak[:, None]), tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


@triton.jit
def hash_counts_masked(x_ptr, counts_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(x_ptr + i) & 15
    tl.atomic_add(counts_ptr + slot, 1, mask=(slot >= 0) & (slot < 16))  # fault


@triton.jit
def hash_counts(x_ptr, counts_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(x_ptr + i) & 15
    tl.atomic_add(counts_ptr + slot, 1)


def keys():
    return torch.randint(0, 1 << 20, (1024,), generator=torch.Generator().manual_seed(196), dtype=torch.int32)


def count_hashes(kernel):
    counts = torch.zeros(16, dtype=torch.int32)
    kernel[(8,)](keys(), counts, BLOCK=128)
    return counts


def log_sums():
    return matrix().double().logsumexp(1)


def with_bias():
    return product() + normal(50, seed=195).double()[:, None]


ROW = partial(row_values, matrix)
CASES = (
    seeded(
        "lane under the block",
        "vector",
        square_blocks,
        (square_masked_by_block, square),
        lambda: whole_blocks().double().square(),
    ),
    seeded(
        "remainder under its divisor through helpers",
        "vector",
        roll_by_700,
        (roll_masked, roll),
        lambda: normal(1500, seed=192).roll(-700),
        (load_wrapped_masked,),
    ),
    seeded(
        "zeros stored first",
        "vector",
        hinge_loss,
        (hinge_after_zero, hinge),
        lambda: (1 - normal(1500, seed=193).double()).clamp(min=0),
    ),
    seeded(
        "scale loaded again",
        "row",
        scale_rows,
        (scale_row_reloading, scale_row),
        lambda: matrix().double() * scales().double()[:, None],
    ),
    seeded("total stored each time", "row", ROW, (log_sum_storing_each, log_sum), log_sums),
    seeded(
        "maximum stored each time through helpers",
        "row",
        ROW,
        (amax_keeping_each, amax),
        lambda: matrix().abs().amax(1),
        (keep,),
    ),
    seeded("bias loaded again", "matmul", multiply_with_bias, (bias_matmul_reloading, bias_matmul), with_bias),
    seeded("queries loaded again", "attention", attention, (attend_reloading, attend), attended),
    seeded("output stored each time", "attention", attention, (attend_storing_each, attend), attended),
    seeded(
        "low bits under their limit",
        "atomic",
        count_hashes,
        (hash_counts_masked, hash_counts),
        lambda: torch.bincount(keys() & 15, minlength=16),
    ),
)
