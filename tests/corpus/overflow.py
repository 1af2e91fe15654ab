"""Offsets in int32 that wrap: in small launches already, or in shapes that no test can hold.

A pair with `scale_to` is right at its small shape; sizes that mean the same thing are equal, all others differ.
"""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import normal, on_contiguous
from tests.corpus.model import Seeded, pair
from tilesight import Case

seeded = partial(pair, "overflow")


def scaled(name, shape, launch, kernels, eager, inputs, lines=()):
    """A pair that is right at `inputs` and wraps when its shapes grow to 2**33 elements."""
    faulty, repaired = (Case(eager, partial(on_contiguous, launch, kernel), inputs) for kernel in kernels)
    return Seeded("overflow", name, shape, faulty, repaired, lines or (kernels[0],), scale_to=2**33)


@triton.jit
def add_flat32(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # fault
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def add_flat64(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x, y = tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(kernel, x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def scale_rows32(x_ptr, w_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_row = x_ptr + row * x_stride  # fault
    out_row = out_ptr + row.to(tl.int64) * out_stride
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        w = tl.load(w_ptr + c, mask=c < cols)
        tl.store(out_row + c, tl.load(x_row + c, mask=c < cols) * w, mask=c < cols)


@triton.jit
def scale_rows64(x_ptr, w_ptr, out_ptr, x_stride, out_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_row = x_ptr + row.to(tl.int64) * x_stride
    out_row = out_ptr + row.to(tl.int64) * out_stride
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        w = tl.load(w_ptr + c, mask=c < cols)
        tl.store(out_row + c, tl.load(x_row + c, mask=c < cols) * w, mask=c < cols)


def scale_rows(kernel, x, w):
    out = torch.empty_like(x)
    kernel[(x.shape[0],)](x, w, out, x.stride(0), out.stride(0), x.shape[1], BLOCK=64)
    return out


@triton.jit
def add_bias32(x_ptr, bias_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    batch, m = tl.program_id(0) // M, tl.program_id(0) % M
    base = batch * (M * N)  # fault
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        bias = tl.load(bias_ptr + n, mask=n < N)
        place = base + m.to(tl.int64) * N + n
        tl.store(out_ptr + place, tl.load(x_ptr + place, mask=n < N) + bias, mask=n < N)


@triton.jit
def add_bias64(x_ptr, bias_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    batch, m = tl.program_id(0) // M, tl.program_id(0) % M
    base = batch.to(tl.int64) * M * N
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        bias = tl.load(bias_ptr + n, mask=n < N)
        place = base + m.to(tl.int64) * N + n
        tl.store(out_ptr + place, tl.load(x_ptr + place, mask=n < N) + bias, mask=n < N)


def add_bias(kernel, x, bias):
    (B, M, N), out = x.shape, torch.empty_like(x)
    kernel[(B * M,)](x, bias, out, M, N, BLOCK=32)
    return out


@triton.jit
def matmul32(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    m = tl.program_id(0) // tiles_n * BM + tl.arange(0, BM)
    n = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    a_rows = a_ptr + m[:, None] * K  # fault
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        b_rows = b_ptr + k[:, None].to(tl.int64) * N
        a = tl.load(a_rows + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_rows + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_rows = c_ptr + m[:, None].to(tl.int64) * N
    tl.store(c_rows + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul64(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    m = tl.program_id(0) // tiles_n * BM + tl.arange(0, BM)
    n = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    a_rows = a_ptr + m[:, None].to(tl.int64) * K
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        b_rows = b_ptr + k[:, None].to(tl.int64) * N
        a = tl.load(a_rows + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_rows + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_rows = c_ptr + m[:, None].to(tl.int64) * N
    tl.store(c_rows + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def matmul(kernel, a, b):
    (M, K), N = a.shape, b.shape[1]
    c = a.new_empty(M, N)
    kernel[(triton.cdiv(M, 32) * triton.cdiv(N, 16),)](a, b, c, M, N, K, BM=32, BN=16, BK=16)
    return c


@triton.jit
def decode(q_ptr, k_head, v_head, o_ptr, stride_t, S, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    head, d = tl.program_id(0).to(tl.int64), tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d).to(tl.float32)
    peak, total = float("-inf"), 0.0
    acc = tl.zeros((D,), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        t = start + tl.arange(0, BLOCK)
        place = t[:, None].to(tl.int64) * stride_t + d[None, :]
        k = tl.load(k_head + place, mask=t[:, None] < S, other=0.0)
        v = tl.load(v_head + place, mask=t[:, None] < S, other=0.0)
        s = tl.where(t < S, tl.sum(q[None, :] * k, axis=1) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=0))
        p, shrink = tl.exp(s - new_peak), tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=0)
        acc = acc * shrink + tl.sum(p[:, None] * v, axis=0)
        peak = new_peak
    tl.store(o_ptr + head * D + d, acc / total)


@triton.jit
def decode_heads32(q, k, v, o, H, stride_b, stride_h, stride_t, S, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    batch, head = tl.program_id(0) // H, tl.program_id(0) % H
    base = batch * stride_b + head.to(tl.int64) * stride_h  # fault
    decode(q, k + base, v + base, o, stride_t, S, scale, D, BLOCK)


@triton.jit
def decode_heads64(q, k, v, o, H, stride_b, stride_h, stride_t, S, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    batch, head = tl.program_id(0) // H, tl.program_id(0) % H
    base = batch.to(tl.int64) * stride_b + head.to(tl.int64) * stride_h
    decode(q, k + base, v + base, o, stride_t, S, scale, D, BLOCK)


def decode_heads(kernel, q, k, v):
    (B, H, S, D), out = k.shape, torch.empty_like(q)
    if S == 0 or D == 0 or D & (D - 1):
        raise ValueError(f"{S} keys of {D} numbers; expected one or more of a power of 2")
    kernel[(B * H,)](q, k, v, out, H, *k.stride()[:3], S, D**-0.5, D=D, BLOCK=16)
    return out


def decoded(q, k, v):
    weights = torch.softmax((k @ q[:, :, :, None])[..., 0] * q.shape[-1] ** -0.5, dim=-1)
    return (weights[:, :, None] @ v)[:, :, 0]


@triton.jit
def count_row32(x_ptr, counts_ptr, cols, BINS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    counts_row = counts_ptr + row * BINS  # fault
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row.to(tl.int64) * cols + c, mask=c < cols, other=0.0).to(tl.float32)
        place = tl.clamp(x * 8 + BINS // 2, 0.0, BINS - 1.0).to(tl.int32)
        tl.atomic_add(counts_row + place, 1, mask=c < cols)


@triton.jit
def count_row64(x_ptr, counts_ptr, cols, BINS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    counts_row = counts_ptr + row.to(tl.int64) * BINS
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row.to(tl.int64) * cols + c, mask=c < cols, other=0.0).to(tl.float32)
        place = tl.clamp(x * 8 + BINS // 2, 0.0, BINS - 1.0).to(tl.int32)
        tl.atomic_add(counts_row + place, 1, mask=c < cols)


def count_rows(kernel, x):
    counts = torch.zeros(x.shape[0], 64, dtype=torch.int32)
    kernel[(x.shape[0],)](x, counts, x.shape[1], BINS=64, BLOCK=16)
    return counts


def row_counts(x):
    place = (x.float() * 8 + 32).clamp(0, 63).long()
    return torch.zeros(x.shape[0], 64).scatter_add_(1, place, torch.ones(x.shape)).int()


@triton.jit
def line_start(line, width):
    return line * width  # fault


@triton.jit
def line_pointer(ptr, line, width):
    return ptr + line_start(line, width)


@triton.jit
def flip_lines32(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    line = tl.program_id(0)
    for start in range(0, width, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(line_pointer(x_ptr, line, width) + c, mask=c < width)
        tl.store(out_ptr + line.to(tl.int64) * width + width - 1 - c, x, mask=c < width)


@triton.jit
def line_start64(line, width):
    return line.to(tl.int64) * width


@triton.jit
def line_pointer64(ptr, line, width):
    return ptr + line_start64(line, width)


@triton.jit
def flip_lines64(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    line = tl.program_id(0)
    for start in range(0, width, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(line_pointer64(x_ptr, line, width) + c, mask=c < width)
        tl.store(out_ptr + line.to(tl.int64) * width + width - 1 - c, x, mask=c < width)


def flip_lines(kernel, x):
    out = torch.empty_like(x)
    kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=32)
    return out


@triton.jit
def enlarge32(x_ptr, out_ptr, small, large, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = i * small // large  # fault
    source = tl.minimum(tl.maximum(source, 0), small - 1)
    tl.store(out_ptr + i, tl.load(x_ptr + source, mask=i < large), mask=i < large)


@triton.jit
def enlarge64(x_ptr, out_ptr, small, large, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = i.to(tl.int64) * small // large
    source = tl.minimum(tl.maximum(source, 0), small - 1)
    tl.store(out_ptr + i, tl.load(x_ptr + source, mask=i < large), mask=i < large)


def enlarge(kernel):
    x, out = normal(40_000, seed=41), torch.empty(99_000)
    kernel[(triton.cdiv(99_000, 1024),)](x, out, 40_000, 99_000, BLOCK=1024)
    return out


@triton.jit
def position(i, step):
    return (i * step) >> 16  # fault


@triton.jit
def sample(x_ptr, i, step, length, mask):
    return tl.load(x_ptr + tl.minimum(tl.maximum(position(i, step), 0), length - 1), mask=mask)


@triton.jit
def resample32(x_ptr, out_ptr, step, length, samples, BLOCK: tl.constexpr):
    row, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + row * samples + i, sample(x_ptr + row * length, i, step, length, i < samples), mask=i < samples)


@triton.jit
def position64(i, step):
    return (i.to(tl.int64) * step) >> 16


@triton.jit
def sample64(x_ptr, i, step, length, mask):
    return tl.load(x_ptr + tl.minimum(tl.maximum(position64(i, step), 0), length - 1), mask=mask)


@triton.jit
def resample64(x_ptr, out_ptr, step, length, samples, BLOCK: tl.constexpr):
    row, i = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(
        out_ptr + row * samples + i, sample64(x_ptr + row * length, i, step, length, i < samples), mask=i < samples
    )


def resample(kernel):
    x, out = normal(3, 41_200, seed=42), torch.empty(3, 30_000)
    kernel[(triton.cdiv(30_000, 1024), 3)](x, out, 90_000, 41_200, 30_000, BLOCK=1024)
    return out


@triton.jit
def by_hour32(time_ptr, counts_ptr, n, hours, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    hour = tl.load(time_ptr + i, mask=i < n, other=0) * hours // 86_400_000  # fault
    tl.atomic_add(counts_ptr + tl.minimum(tl.maximum(hour, 0), hours - 1), 1, mask=i < n)


@triton.jit
def by_hour64(time_ptr, counts_ptr, n, hours, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    hour = tl.load(time_ptr + i, mask=i < n, other=0).to(tl.int64) * hours // 86_400_000
    tl.atomic_add(counts_ptr + tl.minimum(tl.maximum(hour, 0), hours - 1), 1, mask=i < n)


def times():
    return (normal(900, seed=43).sigmoid() * 86_399_000).int()


def by_hour(kernel):
    counts = torch.zeros(48, dtype=torch.int32)
    kernel[(triton.cdiv(900, 256),)](times(), counts, 900, 48, BLOCK=256)
    return counts


CASES = (
    scaled("flat offsets", "vector", add, (add_flat32, add_flat64), torch.add, "f32[1000],f32[1000]"),
    scaled("row times stride", "row", scale_rows, (scale_rows32, scale_rows64), torch.mul, "f32[37,93],f32[93]"),
    scaled("batch times M times N", "row", add_bias, (add_bias32, add_bias64), torch.add, "f32[3,17,41],f32[41]"),
    scaled(
        "line start through helpers",
        "row",
        flip_lines,
        (flip_lines32, flip_lines64),
        partial(torch.flip, dims=(1,)),
        "f32[19,70]",
        (line_start,),
    ),
    scaled("row of a factor", "matmul", matmul, (matmul32, matmul64), torch.mm, "f32[70,40],f32[40,24]"),
    scaled(
        "batch times its stride",
        "attention",
        decode_heads,
        (decode_heads32, decode_heads64),
        decoded,
        "f32[2,3,32],f32[2,3,41,32],f32[2,3,41,32]",
    ),
    scaled("row of counts", "atomic", count_rows, (count_row32, count_row64), row_counts, "f32[11,20]"),
    seeded(
        "source of an enlarged vector",
        "vector",
        enlarge,
        (enlarge32, enlarge64),
        lambda: normal(40_000, seed=41).double()[torch.arange(99_000) * 40_000 // 99_000],
    ),
    seeded(
        "fixed point through helpers",
        "row",
        resample,
        (resample32, resample64),
        lambda: normal(3, 41_200, seed=42).double()[:, torch.arange(30_000) * 90_000 >> 16],
        (position,),
    ),
    seeded(
        "time times buckets",
        "atomic",
        by_hour,
        (by_hour32, by_hour64),
        lambda: torch.bincount(times().long() * 48 // 86_400_000, minlength=48),
    ),
)
