"""Launches with too few programs, too many, or a number that fits one shape."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import attended, factors, heads, matrix, normal, product
from tests.corpus.model import Seeded
from tilesight import Case


def seeded(name, shape, faulty, repaired, expected=None):
    """The fault is in the launch: the kernel is the same on both sides."""
    launcher = faulty.hand if isinstance(faulty, Case) else faulty
    return Seeded("grid", name, shape, faulty, repaired, (launcher,), expected=expected)


@triton.jit
def leaky_relu(x_ptr, out_ptr, n, slope, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.where(x > 0, x, x * slope), mask=i < n)


def leaky_whole_blocks():
    x = normal(3000, seed=121)
    out = torch.empty_like(x)
    leaky_relu[(3000 // 256,)](x, out, 3000, 0.25, BLOCK=256)  # fault
    return out


def leaky_all_blocks():
    x = normal(3000, seed=121)
    out = torch.empty_like(x)
    leaky_relu[(triton.cdiv(3000, 256),)](x, out, 3000, 0.25, BLOCK=256)
    return out


def leaky_expected():
    return torch.nn.functional.leaky_relu(normal(3000, seed=121).double(), 0.25)


@triton.jit
def multiply_add(x_ptr, y_ptr, z_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    z = tl.load(z_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + i, x * y + z, mask=i < n)


def multiplied_and_added(x, y, z):
    return x * y + z


def multiply_add_98(x, y, z):
    x, y, z = x.contiguous(), y.contiguous(), z.contiguous()
    out = torch.empty_like(x)
    multiply_add[(98,)](x, y, z, out, x.numel(), BLOCK=1024)  # fault
    return out


def multiply_add_any(x, y, z):
    x, y, z = x.contiguous(), y.contiguous(), z.contiguous()
    out = torch.empty_like(x)
    multiply_add[(triton.cdiv(x.numel(), 1024),)](x, y, z, out, x.numel(), BLOCK=1024)
    return out


@triton.jit
def cube(x):
    return x * x * x


@triton.jit
def gelu(x):
    inner = 0.7978845608028654 * (x + 0.044715 * cube(x))
    return x / (1 + tl.exp(-2 * inner))


@triton.jit
def gelu_of_four(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for part in range(4):
        i = (tl.program_id(0) * 4 + part) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        tl.store(out_ptr + i, gelu(x), mask=i < n)


def gelu_grid_of_single_blocks():
    x = normal(5000, seed=122)
    out = torch.empty_like(x)
    gelu_of_four[(triton.cdiv(5000, 128),)](x, out, 5000, BLOCK=128)  # fault
    return out


def gelu_grid_of_four_blocks():
    x = normal(5000, seed=122)
    out = torch.empty_like(x)
    gelu_of_four[(triton.cdiv(5000, 4 * 128),)](x, out, 5000, BLOCK=128)
    return out


def gelu_expected():
    return torch.nn.functional.gelu(normal(5000, seed=122).double(), approximate="tanh")


@triton.jit
def softmax_rows(x_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + c, e / tl.sum(e, axis=0), mask=c < cols)


def softmax_without_last_row():
    x = matrix()
    out = torch.empty_like(x)
    softmax_rows[(x.shape[0] - 1,)](x, out, x.stride(0), out.stride(0), x.shape[1], BLOCK=128)  # fault
    return out


def softmax_of_each_row():
    x = matrix()
    out = torch.empty_like(x)
    softmax_rows[(x.shape[0],)](x, out, x.stride(0), out.stride(0), x.shape[1], BLOCK=128)
    return out


@triton.jit
def row_norms(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, total = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        inside = (r[:, None] < rows) & (c[None, :] < cols)
        x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=inside, other=0.0).to(tl.float32)
        total += tl.sum(x * x, axis=1)
    tl.store(out_ptr + r, tl.sqrt(total), mask=r < rows)


def norms_of_64_rows(x):
    x, out = x.contiguous(), torch.empty(x.shape[0], dtype=x.dtype)
    row_norms[(16,)](x, out, x.shape[0], x.shape[1], ROWS=4, BLOCK=64)  # fault
    return out


def norms_of_rows(x):
    x, out = x.contiguous(), torch.empty(x.shape[0], dtype=x.dtype)
    row_norms[(triton.cdiv(x.shape[0], 4),)](x, out, x.shape[0], x.shape[1], ROWS=4, BLOCK=64)
    return out


@triton.jit
def tile_offsets(row_block, column_block, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    r, c = row_block * ROWS + tl.arange(0, ROWS), column_block * COLS + tl.arange(0, COLS)
    return r, c, r[:, None] * cols + c[None, :]


@triton.jit
def load_tile(x_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    r, c, offsets = tile_offsets(tl.program_id(0), tl.program_id(1), cols, ROWS, COLS)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    return tl.load(x_ptr + offsets, mask=inside, other=0.0), offsets, inside


@triton.jit
def clamp_tiles(x_ptr, out_ptr, rows, cols, limit, ROWS: tl.constexpr, COLS: tl.constexpr):
    x, offsets, inside = load_tile(x_ptr, rows, cols, ROWS, COLS)
    tl.store(out_ptr + offsets, tl.minimum(tl.maximum(x, -limit), limit), mask=inside)


def clamp_narrow():
    x = matrix()
    out = torch.empty_like(x)
    clamp_tiles[(triton.cdiv(37, 16), 93 // 32)](x, out, 37, 93, 0.5, ROWS=16, COLS=32)  # fault
    return out


def clamp_all():
    x = matrix()
    out = torch.empty_like(x)
    clamp_tiles[(triton.cdiv(37, 16), triton.cdiv(93, 32))](x, out, 37, 93, 0.5, ROWS=16, COLS=32)
    return out


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def multiply_with_one_block_for_both():
    (a, b), c = factors(), torch.empty(50, 40)
    matmul[(triton.cdiv(50, 32), triton.cdiv(40, 32))](a, b, c, 50, 40, 72, BM=32, BN=16, BK=32)  # fault
    return c


def multiply_with_each_block():
    (a, b), c = factors(), torch.empty(50, 40)
    matmul[(triton.cdiv(50, 32), triton.cdiv(40, 16))](a, b, c, 50, 40, 72, BM=32, BN=16, BK=32)
    return c


@triton.jit
def matmul_flat_grid(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    across = tl.cdiv(N, BN)
    m = tl.program_id(0) // across * BM + tl.arange(0, BM)
    n = tl.program_id(0) % across * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def multiply_on_grid_of_another_tile():
    (a, b), c = factors(), torch.empty(50, 40)
    matmul_flat_grid[(triton.cdiv(50, 16) * triton.cdiv(40, 16),)](a, b, c, 50, 40, 72, BM=32, BN=32, BK=16)  # fault
    return c


def multiply_on_own_grid():
    (a, b), c = factors(), torch.empty(50, 40)
    matmul_flat_grid[(triton.cdiv(50, 32) * triton.cdiv(40, 32),)](a, b, c, 50, 40, 72, BM=32, BN=32, BK=16)
    return c


@triton.jit
def attend_heads(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d, head = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.program_id(1) * S * D
    q = tl.load(q_ptr + head + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float32), tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + head + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        v = tl.load(v_ptr + head + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.exp(s - new_peak[:, None])
        shrink = tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
    tl.store(o_ptr + head + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < S)


def batch_of_heads():
    return tuple(normal(2, 3, 40, 16, seed=seed) for seed in (123, 124, 125))


def attend_a_program_a_batch():
    (q, k, v), o = batch_of_heads(), torch.empty(2, 3, 40, 16)
    attend_heads[(triton.cdiv(40, 16), 2)](q, k, v, o, 40, 0.25, D=16, BM=16, BN=16)  # fault
    return o


def attend_a_program_a_head():
    (q, k, v), o = batch_of_heads(), torch.empty(2, 3, 40, 16)
    attend_heads[(triton.cdiv(40, 16), 2 * 3)](q, k, v, o, 40, 0.25, D=16, BM=16, BN=16)
    return o


def batch_attended():
    return torch.nn.functional.scaled_dot_product_attention(*(t.double() for t in batch_of_heads()))


def attend_twice_as_many():
    (q, k, v), o = heads(), torch.empty(50, 32)
    attend_heads[(triton.cdiv(50, 16), 1)](q, k, v, o, 50, 32**-0.5, D=32, BM=32, BN=32)  # fault
    return o


def attend_once():
    (q, k, v), o = heads(), torch.empty(50, 32)
    attend_heads[(triton.cdiv(50, 32), 1)](q, k, v, o, 50, 32**-0.5, D=32, BM=32, BN=32)
    return o


@triton.jit
def count_labels(labels_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + tl.load(labels_ptr + i, mask=i < n, other=0), 1, mask=i < n)


def labels():
    return torch.randint(0, 9, (1000,), generator=torch.Generator().manual_seed(126))


def count_whole_blocks():
    counts = torch.zeros(9, dtype=torch.int32)
    count_labels[(1000 // 128,)](labels(), counts, 1000, BLOCK=128)  # fault
    return counts


def count_all_blocks():
    counts = torch.zeros(9, dtype=torch.int32)
    count_labels[(triton.cdiv(1000, 128),)](labels(), counts, 1000, BLOCK=128)
    return counts


CASES = (
    seeded("whole blocks only", "vector", leaky_whole_blocks, leaky_all_blocks, leaky_expected),
    seeded(
        "fits 100,000 elements",
        "vector",
        Case(multiplied_and_added, multiply_add_98, "f32[100000],f32[100000],f32[100000]"),
        Case(multiplied_and_added, multiply_add_any, "f32[100000],f32[100000],f32[100000]"),
    ),
    seeded(
        "four blocks a program through helpers",
        "vector",
        gelu_grid_of_single_blocks,
        gelu_grid_of_four_blocks,
        gelu_expected,
    ),
    seeded(
        "last row left out", "row", softmax_without_last_row, softmax_of_each_row, lambda: matrix().double().softmax(1)
    ),
    seeded(
        "fits 64 rows",
        "row",
        Case(lambda x: x.norm(dim=1), norms_of_64_rows, "f32[64,100]"),
        Case(lambda x: x.norm(dim=1), norms_of_rows, "f32[64,100]"),
    ),
    seeded(
        "one axis short through helpers", "row", clamp_narrow, clamp_all, lambda: matrix().double().clamp(-0.5, 0.5)
    ),
    seeded(
        "one block size for both axes", "matmul", multiply_with_one_block_for_both, multiply_with_each_block, product
    ),
    seeded("grid of a smaller tile", "matmul", multiply_on_grid_of_another_tile, multiply_on_own_grid, product),
    seeded("batches taken for heads", "attention", attend_a_program_a_batch, attend_a_program_a_head, batch_attended),
    seeded("twice the query blocks", "attention", attend_twice_as_many, attend_once, attended),
    seeded(
        "tail not counted",
        "atomic",
        count_whole_blocks,
        count_all_blocks,
        lambda: torch.bincount(labels(), minlength=9),
    ),
)
