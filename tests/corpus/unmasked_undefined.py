"""Masked-off lanes of a load without `other` that end up in a result, a branch or an address."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import attended, attention, matmul, matrix, product, row_values, rows, vector
from tests.corpus.model import pair

seeded = partial(pair, "unmasked-undefined")


@triton.jit
def pad_undefined(x_ptr, out_ptr, n, padded, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)  # fault
    tl.store(out_ptr + i, x * 2, mask=i < padded)  # fault


@triton.jit
def pad_with_zeros(x_ptr, out_ptr, n, padded, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, x * 2, mask=i < padded)


def pad(kernel):
    x, out = vector(), torch.empty(1530)
    kernel[(triton.cdiv(1530, 256),)](x, out, 1500, 1530, BLOCK=256)
    return out


def padded():
    return torch.nn.functional.pad(vector().double() * 2, (0, 30))


@triton.jit
def row_sum_undefined(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols)  # fault
    tl.store(out_ptr + row, tl.sum(x * x, axis=0))  # fault


@triton.jit
def row_sum_of_zeros(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(x * x, axis=0))


@triton.jit
def row_peak_in_pieces(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    peak = tl.full((32,), float("-inf"), dtype=tl.float32)
    for start in range(0, cols, 32):
        c = start + tl.arange(0, 32)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols)  # fault
        peak = tl.maximum(peak, x)
    tl.store(out_ptr + row, tl.max(peak, axis=0))  # fault


@triton.jit
def row_peak_in_padded_pieces(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    peak = tl.full((32,), float("-inf"), dtype=tl.float32)
    for start in range(0, cols, 32):
        c = start + tl.arange(0, 32)
        x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=float("-inf"))
        peak = tl.maximum(peak, x)
    tl.store(out_ptr + row, tl.max(peak, axis=0))


@triton.jit
def centre_wrong_select(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols)  # fault
    mean = tl.sum(tl.where(c <= cols, x, 0.0), axis=0) / cols  # fault
    tl.store(out_ptr + row * out_stride + c, x - mean, mask=c < cols)


@triton.jit
def centre_right_select(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols)
    mean = tl.sum(tl.where(c < cols, x, 0.0), axis=0) / cols
    tl.store(out_ptr + row * out_stride + c, x - mean, mask=c < cols)


def centred():
    x = matrix().double()
    return x - x.mean(1, keepdim=True)


@triton.jit
def matmul_undefined_tail(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs, b_ptrs = a_ptr + m[:, None] * K + k[None, :], b_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < left) & (n[None, :] < N))  # fault
        acc = tl.dot(a, b, acc, input_precision="ieee")  # fault
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_zero_tail(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs, b_ptrs = a_ptr + m[:, None] * K + k[None, :], b_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < left) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BK
        b_ptrs += BK * N
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def attend_undefined_values(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    total = tl.zeros((BM,), dtype=tl.float32)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p, shrink = tl.exp(s - new_peak[:, None]), tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S)  # fault
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")  # fault
        peak = new_peak
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


@triton.jit
def attend_zero_values(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    total = tl.zeros((BM,), dtype=tl.float32)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p, shrink = tl.exp(s - new_peak[:, None]), tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
    tl.store(o_ptr + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


@triton.jit
def count_undefined(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)  # fault
    tl.atomic_add(count_ptr, tl.sum((x > 0.5).to(tl.int32), axis=0))  # fault


@triton.jit
def count_defined(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(count_ptr, tl.sum((x > 0.5).to(tl.int32), axis=0))


def count(kernel):
    x, result = vector(), torch.zeros(1, dtype=torch.int32)
    kernel[(triton.cdiv(1500, 256),)](x, result, 1500, BLOCK=256)
    return result


@triton.jit
def branch_on_undefined(x_ptr, gate_ptr, out_ptr, n, gates, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    gate = tl.load(gate_ptr + block, mask=block < gates)  # fault
    if gate > 0:  # fault
        x = -x
    tl.store(out_ptr + i, x, mask=i < n)


@triton.jit
def branch_on_default(x_ptr, gate_ptr, out_ptr, n, gates, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    gate = tl.load(gate_ptr + block, mask=block < gates, other=0)
    if gate > 0:
        x = -x
    tl.store(out_ptr + i, x, mask=i < n)


def gated(kernel):
    x, gate = vector(), torch.tensor([1, 0, 1, 1], dtype=torch.int32)
    out = torch.empty_like(x)
    kernel[(triton.cdiv(1500, 256),)](x, gate, out, 1500, 4, BLOCK=256)
    return out


def gated_expected():
    block = torch.arange(1500) // 256
    return vector().double() * torch.where((block == 0) | (block == 2) | (block == 3), -1.0, 1.0)


@triton.jit
def fetch(x_ptr, i, n):
    return tl.load(x_ptr + i, mask=i < n)  # fault


@triton.jit
def fetch_row(x_ptr, row, stride, cols, BLOCK: tl.constexpr):
    return fetch(x_ptr + row * stride, tl.arange(0, BLOCK), cols)


@triton.jit
def order_undefined(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    ordered = tl.sort(fetch_row(x_ptr, row, x_stride, cols, BLOCK))  # fault
    tl.store(out_ptr + row * out_stride + c, ordered, mask=c < cols)


@triton.jit
def fetch_or_last(x_ptr, i, n):
    return tl.load(x_ptr + i, mask=i < n, other=float("inf"))


@triton.jit
def fetch_row_or_last(x_ptr, row, stride, cols, BLOCK: tl.constexpr):
    return fetch_or_last(x_ptr + row * stride, tl.arange(0, BLOCK), cols)


@triton.jit
def order(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    ordered = tl.sort(fetch_row_or_last(x_ptr, row, x_stride, cols, BLOCK))
    tl.store(out_ptr + row * out_stride + c, ordered, mask=c < cols)


@triton.jit
def squares_of(x, y):
    return x * x + y * y


@triton.jit
def length_squared(x_ptr, i, half):
    x = tl.load(x_ptr + i, mask=i < half, other=0.0)
    y = tl.load(x_ptr + half + i, mask=i < half)  # fault
    return tl.sum(squares_of(x, y), axis=0)  # fault


@triton.jit
def energies_undefined(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = length_squared(x_ptr + row * x_stride, tl.arange(0, BLOCK), cols // 2)
    tl.store(out_ptr + row, total)


@triton.jit
def length_squared_padded(x_ptr, i, half):
    x = tl.load(x_ptr + i, mask=i < half, other=0.0)
    y = tl.load(x_ptr + half + i, mask=i < half, other=0.0)
    return tl.sum(squares_of(x, y), axis=0)


@triton.jit
def energies(x_ptr, out_ptr, x_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = length_squared_padded(x_ptr + row * x_stride, tl.arange(0, BLOCK), cols // 2)
    tl.store(out_ptr + row, total)


def pairs_of_columns():
    return matrix()[:, 1:].contiguous()


def matrix_squared():
    return matrix().double().square().sum(1)


values = partial(row_values, matrix)

CASES = (
    seeded("padding is stored", "vector", pad, (pad_undefined, pad_with_zeros), padded),
    seeded("branch on a missing gate", "vector", gated, (branch_on_undefined, branch_on_default), gated_expected),
    seeded("tail in a sum", "row", values, (row_sum_undefined, row_sum_of_zeros), matrix_squared),
    seeded(
        "tail in a running maximum",
        "row",
        values,
        (row_peak_in_pieces, row_peak_in_padded_pieces),
        lambda: matrix().double().amax(1),
    ),
    seeded(
        "select lets one lane in", "row", partial(rows, matrix), (centre_wrong_select, centre_right_select), centred
    ),
    seeded(
        "sort through helpers",
        "row",
        partial(rows, matrix),
        (order_undefined, order),
        lambda: matrix().double().sort(1).values,
        (fetch, order_undefined),
    ),
    seeded(
        "second half through helpers",
        "row",
        partial(row_values, pairs_of_columns),
        (energies_undefined, energies),
        lambda: pairs_of_columns().double().square().sum(1),
        (length_squared,),
    ),
    seeded("tail of K in a product", "matmul", matmul, (matmul_undefined_tail, matmul_zero_tail), product),
    seeded("values past the sequence", "attention", attention, (attend_undefined_values, attend_zero_values), attended),
    seeded(
        "count of undefined lanes", "atomic", count, (count_undefined, count_defined), lambda: (vector() > 0.5).sum()
    ),
)
