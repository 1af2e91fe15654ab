"""Lanes outside their tensor: forgotten and wrong masks, views, negative offsets."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import added, attended, attention, binary, matmul, matrix, product, rows, unary, vector
from tests.corpus.model import pair

seeded = partial(pair, "out-of-bounds")


@triton.jit
def tail_unmasked(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets)  # fault
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def tail_masked(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def left_neighbour_unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x_ptr + i, mask=i < n)
    left = tl.load(x_ptr + i - 1, mask=i < n)  # fault
    tl.store(out_ptr + i, tl.where(i > 0, here - left, here), mask=i < n)


@triton.jit
def left_neighbour_masked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x_ptr + i, mask=i < n)
    left = tl.load(x_ptr + i - 1, mask=(i > 0) & (i < n))
    tl.store(out_ptr + i, tl.where(i > 0, here - left, here), mask=i < n)


@triton.jit
def scale_rows_by_stride(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < x_stride, other=0.0)  # fault
    peak = tl.max(tl.abs(tl.where(c < cols, x, 0.0)), axis=0)
    tl.store(out_ptr + row * out_stride + c, x / (peak + 1.0), mask=c < cols)


@triton.jit
def scale_rows_by_cols(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    peak = tl.max(tl.abs(tl.where(c < cols, x, 0.0)), axis=0)
    tl.store(out_ptr + row * out_stride + c, x / (peak + 1.0), mask=c < cols)


def view_of_columns():
    torch.manual_seed(2)
    return torch.randn(37, 120)[:, 8:101]


def scale_rows_expected():
    x = view_of_columns().double()
    return x / (x.abs().amax(1, keepdim=True) + 1)


@triton.jit
def transpose_swapped(x_ptr, out_ptr, M, N, stride_x, stride_out, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < N) & (n[None, :] < M)
    tile = tl.load(x_ptr + m[:, None] * stride_x + n[None, :], mask=inside, other=0.0)  # fault
    kept = (n[:, None] < N) & (m[None, :] < M)
    tl.store(out_ptr + n[:, None] * stride_out + m[None, :], tl.trans(tile), mask=kept)


@triton.jit
def transpose_straight(x_ptr, out_ptr, M, N, stride_x, stride_out, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tile = tl.load(x_ptr + m[:, None] * stride_x + n[None, :], mask=inside, other=0.0)
    kept = (n[:, None] < N) & (m[None, :] < M)
    tl.store(out_ptr + n[:, None] * stride_out + m[None, :], tl.trans(tile), mask=kept)


def transpose_input():
    torch.manual_seed(3)
    return torch.randn(70, 150)


def transpose(kernel):
    x = transpose_input()
    (M, N), out = x.shape, torch.empty(150, 70)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    kernel[grid](x, out, M, N, x.stride(0), out.stride(0), BLOCK_M=32, BLOCK_N=32)
    return out


@triton.jit
def matmul_b_tail(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)  # fault
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_b_masked(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def attend_unmasked_keys(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None])  # fault
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.exp(s - new_peak[:, None])
        shrink = tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p, v, input_precision="ieee")
        peak = new_peak
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


@triton.jit
def attend_masked_keys(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.exp(s - new_peak[:, None])
        shrink = tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p, v, input_precision="ieee")
        peak = new_peak
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


@triton.jit
def histogram_unclamped(x_ptr, counts_ptr, n, bins, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    place = (x * bins).to(tl.int32)
    tl.atomic_add(counts_ptr + place, 1, mask=i < n)  # fault


@triton.jit
def histogram_clamped(x_ptr, counts_ptr, n, bins, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    place = tl.minimum((x * bins).to(tl.int32), bins - 1)
    tl.atomic_add(counts_ptr + place, 1, mask=i < n)


def unit_samples():
    torch.manual_seed(6)
    x = torch.rand(700)
    x[::90] = 1.0
    return x


def histogram(kernel):
    x, counts = unit_samples(), torch.zeros(16, dtype=torch.int32)
    kernel[(triton.cdiv(x.numel(), 256),)](x, counts, x.numel(), 16, BLOCK=256)
    return counts


def histogram_expected():
    return torch.bincount((unit_samples() * 16).int().clamp(max=15), minlength=16)


@triton.jit
def gather_row(table_ptr, token, width, c):
    return tl.load(table_ptr + token * width + c, mask=c < width, other=0.0)  # fault


@triton.jit
def embed_row(table_ptr, tokens_ptr, i, width, c):
    return gather_row(table_ptr, tl.load(tokens_ptr + i), width, c)


@triton.jit
def embedding_reads_padding(tokens_ptr, table_ptr, out_ptr, width, BLOCK: tl.constexpr):
    i, c = tl.program_id(0), tl.arange(0, BLOCK)
    row = embed_row(table_ptr, tokens_ptr, i, width, c)
    tl.store(out_ptr + i * width + c, row, mask=c < width)


@triton.jit
def gather_row_or_zero(table_ptr, token, width, c):
    return tl.load(table_ptr + token * width + c, mask=(c < width) & (token >= 0), other=0.0)


@triton.jit
def embed_row_or_zero(table_ptr, tokens_ptr, i, width, c):
    return gather_row_or_zero(table_ptr, tl.load(tokens_ptr + i), width, c)


@triton.jit
def embedding_skips_padding(tokens_ptr, table_ptr, out_ptr, width, BLOCK: tl.constexpr):
    i, c = tl.program_id(0), tl.arange(0, BLOCK)
    row = embed_row_or_zero(table_ptr, tokens_ptr, i, width, c)
    tl.store(out_ptr + i * width + c, row, mask=c < width)


def embedding_inputs():
    torch.manual_seed(7)
    tokens = torch.randint(0, 20, (41,), dtype=torch.int32)
    tokens[30:] = -1
    return tokens, torch.randn(20, 48)


def embedding(kernel):
    tokens, table = embedding_inputs()
    out = torch.empty(41, 48)
    kernel[(41,)](tokens, table, out, 48, BLOCK=64)
    return out


def embedding_expected():
    tokens, table = embedding_inputs()
    return torch.where(tokens[:, None] >= 0, table.double()[tokens.clamp(min=0).long()], 0.0)


@triton.jit
def pool_windows_late_bound(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for step in tl.static_range(3):
        x = tl.load(x_ptr + i + step, mask=i + step <= n, other=float("-inf"))  # fault
        best = tl.maximum(best, tl.where(i + step < n, x, float("-inf")))
    tl.store(out_ptr + i, best, mask=i < n)


@triton.jit
def pool_windows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for step in tl.static_range(3):
        x = tl.load(x_ptr + i + step, mask=i + step < n, other=float("-inf"))
        best = tl.maximum(best, tl.where(i + step < n, x, float("-inf")))
    tl.store(out_ptr + i, best, mask=i < n)


def pooled():
    x = torch.nn.functional.pad(vector().double(), (0, 2), value=float("-inf"))
    return x.unfold(0, 3, 1).amax(1)


@triton.jit
def columns_upto(c, limit):
    return c <= limit  # the bound of the row is exclusive


@triton.jit
def store_row(out_ptr, row, stride, c, value, limit):
    tl.store(out_ptr + row * stride + c, value, mask=columns_upto(c, limit))  # fault


@triton.jit
def cumulate_row_past_end(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    store_row(out_ptr, row, out_stride, c, tl.cumsum(x, axis=0), cols)


@triton.jit
def columns_below(c, limit):
    return c < limit


@triton.jit
def store_row_inside(out_ptr, row, stride, c, value, limit):
    tl.store(out_ptr + row * stride + c, value, mask=columns_below(c, limit))


@triton.jit
def cumulate_row(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    store_row_inside(out_ptr, row, out_stride, c, tl.cumsum(x, axis=0), cols)


def cumulate(kernel):
    x = matrix()
    out = torch.zeros(37, 96)[:, :93]
    kernel[(37,)](x, out, x.stride(0), out.stride(0), 93, BLOCK=128)
    return out


def differences():
    return torch.diff(vector().double(), prepend=torch.zeros(1, dtype=torch.float64))


CASES = (
    seeded("tail without a mask", "vector", binary, (tail_unmasked, tail_masked), added),
    seeded(
        "neighbour before the first",
        "vector",
        partial(unary, vector),
        (left_neighbour_unmasked, left_neighbour_masked),
        differences,
    ),
    seeded("window ends late", "vector", partial(unary, vector), (pool_windows_late_bound, pool_windows), pooled),
    seeded(
        "row masked by its stride",
        "row",
        partial(rows, view_of_columns),
        (scale_rows_by_stride, scale_rows_by_cols),
        scale_rows_expected,
    ),
    seeded(
        "bound of a helper inclusive",
        "row",
        cumulate,
        (cumulate_row_past_end, cumulate_row),
        lambda: matrix().double().cumsum(1),
        (store_row,),
    ),
    seeded(
        "negative row through helpers",
        "row",
        embedding,
        (embedding_reads_padding, embedding_skips_padding),
        embedding_expected,
        (gather_row,),
    ),
    seeded(
        "mask with its axes swapped",
        "matmul",
        transpose,
        (transpose_swapped, transpose_straight),
        lambda: transpose_input().double().T,
    ),
    seeded("tail of K on one side", "matmul", matmul, (matmul_b_tail, matmul_b_masked), product),
    seeded("keys past the sequence", "attention", attention, (attend_unmasked_keys, attend_masked_keys), attended),
    seeded("bin of the maximum", "atomic", histogram, (histogram_unclamped, histogram_clamped), histogram_expected),
)
