"""Outputs from torch.empty with elements that no program stores."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import (
    added,
    attended,
    attention,
    binary,
    matmul,
    matrix,
    normal,
    product,
    rows,
    vector,
)
from tests.corpus.model import pair

seeded = partial(pair, "never-written")


@triton.jit
def add_all_but_last(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n - 1)  # fault


@triton.jit
def add_all(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x + y, mask=i < n)


@triton.jit
def widen_every_other(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + 2 * i, x, mask=i < n)  # fault


@triton.jit
def widen(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + 2 * i, x, mask=i < n)
    tl.store(out_ptr + 2 * i + 1, tl.zeros_like(x), mask=i < n)


def as_complex(kernel):
    x, out = vector(), torch.empty(1500, 2)
    kernel[(triton.cdiv(1500, 256),)](x, out, 1500, BLOCK=256)
    return out


def as_complex_expected():
    return torch.stack((vector().double(), torch.zeros(1500, dtype=torch.float64)), dim=1)


@triton.jit
def normalise_pairs_odd(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row, c = 2 * tl.program_id(0) + tl.arange(0, 2), tl.arange(0, BLOCK)
    place, inside = row[:, None] * cols + c[None, :], (row[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + place, mask=inside, other=0.0)
    scale = 1 / (1 + tl.max(tl.abs(x), axis=1))
    full = (2 * tl.program_id(0) + 1 < rows) & (c[None, :] < cols)
    tl.store(out_ptr + place, x * scale[:, None], mask=full)  # fault


@triton.jit
def normalise_pairs(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row, c = 2 * tl.program_id(0) + tl.arange(0, 2), tl.arange(0, BLOCK)
    place, inside = row[:, None] * cols + c[None, :], (row[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + place, mask=inside, other=0.0)
    scale = 1 / (1 + tl.max(tl.abs(x), axis=1))
    tl.store(out_ptr + place, x * scale[:, None], mask=inside)


def normalise(kernel):
    x = matrix()
    out = x.new_empty(37, 93)
    kernel[(triton.cdiv(37, 2),)](x, out, 37, 93, BLOCK=128)
    return out


def normalised():
    x = matrix().double()
    return x / (1 + x.abs().amax(1, keepdim=True))


@triton.jit
def softmax_skips_idle(x_ptr, active_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    if tl.load(active_ptr + row) == 0:  # fault
        return
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + c, e / tl.sum(e, axis=0), mask=c < cols)  # fault


@triton.jit
def softmax_zeroes_idle(x_ptr, active_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    if tl.load(active_ptr + row) == 0:
        tl.store(out_ptr + row * cols + c, tl.zeros((BLOCK,), dtype=tl.float32), mask=c < cols)
        return
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + c, e / tl.sum(e, axis=0), mask=c < cols)


def activity():
    return torch.tensor([row % 5 != 3 for row in range(37)], dtype=torch.int32)


def gated_softmax(kernel):
    x, active = matrix(), activity()
    out = torch.empty_like(x)
    kernel[(37,)](x, active, out, 93, BLOCK=128)
    return out


@triton.jit
def matmul_square_mask(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < N) & (n[None, :] < N))  # fault


@triton.jit
def matmul_own_masks(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def attend(q, k_ptr, v_ptr, m, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.arange(0, D)
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
    return acc / total[:, None]


@triton.jit
def attention_full_blocks(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    o = attend(q, k_ptr, v_ptr, m, S, scale, D, BM, BN)
    tl.store(o_ptr + m[:, None] * D + d[None, :], o, mask=m[:, None] < S // 16 * 16)  # fault


@triton.jit
def attention_all_blocks(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    o = attend(q, k_ptr, v_ptr, m, S, scale, D, BM, BN)
    tl.store(o_ptr + m[:, None] * D + d[None, :], o, mask=m[:, None] < S)


@triton.jit
def sum_pages_of_longest(x_ptr, owner_ptr, pages_ptr, total_ptr, ticket_ptr, out_ptr, longest, PAGE: tl.constexpr):
    page = tl.program_id(0)
    owner = tl.load(owner_ptr + page)
    part = tl.sum(tl.load(x_ptr + page * PAGE + tl.arange(0, PAGE)), axis=0)
    tl.atomic_add(total_ptr + owner, part)
    ticket = tl.atomic_add(ticket_ptr + owner, 1)
    if ticket == longest - 1:  # fault
        tl.store(out_ptr + owner, tl.atomic_add(total_ptr + owner, 0))  # fault


@triton.jit
def sum_pages_of_each(x_ptr, owner_ptr, pages_ptr, total_ptr, ticket_ptr, out_ptr, longest, PAGE: tl.constexpr):
    page = tl.program_id(0)
    owner = tl.load(owner_ptr + page)
    part = tl.sum(tl.load(x_ptr + page * PAGE + tl.arange(0, PAGE)), axis=0)
    tl.atomic_add(total_ptr + owner, part)
    ticket = tl.atomic_add(ticket_ptr + owner, 1)
    if ticket == tl.load(pages_ptr + owner) - 1:
        tl.store(out_ptr + owner, tl.atomic_add(total_ptr + owner, 0))


def pages():
    return (normal(11, 64, seed=21) * 100).int(), torch.tensor([0, 0, 0, 1, 2, 2, 2, 3, 3, 4, 4], dtype=torch.int32)


def sum_pages(kernel):
    x, owner = pages()
    count = torch.bincount(owner).int()
    total, ticket, out = torch.zeros_like(count), torch.zeros_like(count), torch.empty_like(count)
    kernel[(11,)](x, owner, count, total, ticket, out, 3, PAGE=64)
    return out


def page_sums():
    x, owner = pages()
    return torch.zeros(5, dtype=torch.int64).index_add(0, owner, x.long().sum(1))


@triton.jit
def store_where(ptr, offsets, value, keep):
    tl.store(ptr + offsets, value, mask=keep)  # fault


@triton.jit
def store_halves(out_ptr, c, half, low, high):
    store_where(out_ptr, c, low, c < half)
    store_where(out_ptr + half, c, high, c + half < 2 * half - 1)


@triton.jit
def rotate_misses_last(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c, half = tl.program_id(0), tl.arange(0, BLOCK // 2), cols // 2
    low = tl.load(x_ptr + row * x_stride + c, mask=c < half)
    high = tl.load(x_ptr + row * x_stride + half + c, mask=c < half)
    store_halves(out_ptr + row * out_stride, c, half, -high, low)


@triton.jit
def store_all_where(ptr, offsets, value, keep):
    tl.store(ptr + offsets, value, mask=keep)


@triton.jit
def store_both_halves(out_ptr, c, half, low, high):
    store_all_where(out_ptr, c, low, c < half)
    store_all_where(out_ptr + half, c, high, c + half < 2 * half)


@triton.jit
def rotate(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c, half = tl.program_id(0), tl.arange(0, BLOCK // 2), cols // 2
    low = tl.load(x_ptr + row * x_stride + c, mask=c < half)
    high = tl.load(x_ptr + row * x_stride + half + c, mask=c < half)
    store_both_halves(out_ptr + row * out_stride, c, half, -high, low)


def rotary_rows():
    return normal(19, 90, seed=22)


def rotated():
    low, high = rotary_rows().double().chunk(2, dim=1)
    return torch.cat((-high, low), dim=1)


@triton.jit
def share_rounded_down(rows):
    return rows // tl.num_programs(0)


@triton.jit
def range_of_share(rows):
    first = tl.program_id(0) * share_rounded_down(rows)
    return first, tl.minimum(first + share_rounded_down(rows), rows)


@triton.jit
def sum_some_rows(x_ptr, out_ptr, x_stride, rows, cols, BLOCK: tl.constexpr):
    first, end = range_of_share(rows)
    c = tl.arange(0, BLOCK)
    for row in range(first, end):
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
        tl.store(out_ptr + row, tl.sum(x, axis=0))  # fault


@triton.jit
def share_rounded_up(rows):
    return tl.cdiv(rows, tl.num_programs(0))


@triton.jit
def range_of_whole_share(rows):
    first = tl.program_id(0) * share_rounded_up(rows)
    return first, tl.minimum(first + share_rounded_up(rows), rows)


@triton.jit
def sum_every_row(x_ptr, out_ptr, x_stride, rows, cols, BLOCK: tl.constexpr):
    first, end = range_of_whole_share(rows)
    c = tl.arange(0, BLOCK)
    for row in range(first, end):
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
        tl.store(out_ptr + row, tl.sum(x, axis=0))


def persistent_sums(kernel):
    x, out = matrix(), torch.empty(37)
    kernel[(5,)](x, out, x.stride(0), 37, 93, BLOCK=128)
    return out


CASES = (
    seeded("last element masked", "vector", binary, (add_all_but_last, add_all), added),
    seeded("imaginary parts", "vector", as_complex, (widen_every_other, widen), as_complex_expected),
    seeded("last row of an odd number", "row", normalise, (normalise_pairs_odd, normalise_pairs), normalised),
    seeded(
        "early return",
        "row",
        gated_softmax,
        (softmax_skips_idle, softmax_zeroes_idle),
        lambda: matrix().double().softmax(1) * activity()[:, None],
    ),
    seeded(
        "last column through helpers",
        "row",
        partial(rows, rotary_rows),
        (rotate_misses_last, rotate),
        rotated,
        (store_where,),
    ),
    seeded(
        "share of rows rounded down in helpers",
        "row",
        persistent_sums,
        (sum_some_rows, sum_every_row),
        lambda: matrix().double().sum(1),
    ),
    seeded("rows masked by columns", "matmul", matmul, (matmul_square_mask, matmul_own_masks), product),
    seeded("tail block of queries", "attention", attention, (attention_full_blocks, attention_all_blocks), attended),
    seeded("ticket of the longest", "atomic", sum_pages, (sum_pages_of_longest, sum_pages_of_each), page_sums),
)
