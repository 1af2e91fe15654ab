"""What a GPU refuses: grids, threads, shared memory, tiles and types over its limits."""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl
from triton.backends.nvidia.compiler import min_dot_size

from tests.corpus.launchers import attended, factors, heads, matrix, normal
from tests.corpus.model import Seeded, pair

seeded = partial(pair, "unlaunchable")


def launched(name, shape, faulty, repaired, expected, *lines):
    """The fault is in the launch, or shows in `lines` too."""
    launcher = faulty.func if isinstance(faulty, partial) else faulty
    return Seeded("unlaunchable", name, shape, faulty, repaired, (launcher, *lines), expected=expected)


@triton.jit
def negate_rows_on_y(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * cols + c, -x, mask=c < cols)


@triton.jit
def negate_rows_on_x(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * cols + c, -x, mask=c < cols)


def many_rows():
    return normal(66_000, 5, seed=181)


def negate_tall():
    x, out = many_rows(), torch.empty(66_000, 5)
    negate_rows_on_y[(1, 66_000)](x, out, 5, BLOCK=8)  # fault
    return out


def negate_long():
    x, out = many_rows(), torch.empty(66_000, 5)
    negate_rows_on_x[(66_000, 1)](x, out, 5, BLOCK=8)
    return out


@triton.jit
def total_of(x):
    return tl.sum(x, axis=0)


@triton.jit
def mean_of(x, count):
    return total_of(x) / count


@triton.jit
def means_on_z(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(2), tl.arange(0, BLOCK)
    tl.store(out_ptr + row, mean_of(tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0), cols))


@triton.jit
def means_on_x(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + row, mean_of(tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0), cols))


def means_deep():
    x, out = many_rows(), torch.empty(66_000)
    means_on_z[(1, 1, 66_000)](x, out, 5, BLOCK=8)  # fault
    return out


def means_long():
    x, out = many_rows(), torch.empty(66_000)
    means_on_x[(66_000,)](x, out, 5, BLOCK=8)
    return out


@triton.jit
def swish(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, x * tl.sigmoid(x), mask=i < n)


def swish_by_64_warps():
    x = normal(9000, seed=182)
    out = torch.empty_like(x)
    swish[(triton.cdiv(9000, 4096),)](x, out, 9000, BLOCK=4096, num_warps=64)  # fault
    return out


def swish_by_8_warps():
    x = normal(9000, seed=182)
    out = torch.empty_like(x)
    swish[(triton.cdiv(9000, 4096),)](x, out, 9000, BLOCK=4096, num_warps=8)
    return out


@triton.jit
def lanes_of_any_number(COUNT: tl.constexpr):
    return tl.arange(0, COUNT)  # fault


@triton.jit
def lanes_of_program(COUNT: tl.constexpr):
    return tl.program_id(0) * COUNT + lanes_of_any_number(COUNT)


@triton.jit
def double_by_hundreds(x_ptr, out_ptr, n, COUNT: tl.constexpr):
    i = lanes_of_program(COUNT)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def lanes_of_power(COUNT: tl.constexpr):
    return tl.arange(0, COUNT)


@triton.jit
def lanes_of_program_of_power(COUNT: tl.constexpr):
    return tl.program_id(0) * COUNT + lanes_of_power(COUNT)


@triton.jit
def double_by_powers(x_ptr, out_ptr, n, COUNT: tl.constexpr):
    i = lanes_of_program_of_power(COUNT)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


def double(kernel):
    x = normal(1530, seed=183)
    out = torch.empty_like(x)
    count = 100 if kernel is double_by_hundreds else 128
    kernel[(triton.cdiv(1530, count),)](x, out, 1530, COUNT=count)
    return out


@triton.jit
def peak_of_whole_row(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)  # fault
    tl.store(out_ptr + row, tl.max(tl.load(x_ptr + row * cols + c, mask=c < cols, other=float("-inf")), axis=0))


@triton.jit
def peak_of_row_in_blocks(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, peak = tl.program_id(0), tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        peak = tl.maximum(peak, tl.load(x_ptr + row * cols + c, mask=c < cols, other=float("-inf")))
    tl.store(out_ptr + row, tl.max(peak, axis=0))


def wide_row():
    return normal(1, 1_050_000, seed=184)


def peak(kernel):
    out = torch.empty(1)
    kernel[(1,)](wide_row(), out, 1_050_000, BLOCK=1 << 21 if kernel is peak_of_whole_row else 1 << 13)
    return out


@triton.jit
def quantise(x_ptr, scale_ptr, out_ptr, cols, BLOCK: tl.constexpr):  # fault
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-6) / 448
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + row * cols + c, (x / scale).to(tl.float8e4nv), mask=c < cols)  # fault


@triton.jit
def quantise_e5m2(x_ptr, scale_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-6) / 448
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + row * cols + c, (x / scale).to(tl.float8e5), mask=c < cols)


def quantise_rows(kernel, dtype):
    scale, out = torch.empty(37, 1), torch.empty(37, 93, dtype=dtype)
    kernel[(37,)](matrix(), scale, out, 93, BLOCK=128)  # fault
    return out.float()


def quantise_to_e4m3():
    return quantise_rows(quantise, torch.float8_e4m3fn)


def quantise_to_e5m2():
    return quantise_rows(quantise_e5m2, torch.float8_e5m2)


def quantised():
    x = matrix()
    return (x / (x.abs().amax(1, keepdim=True).clamp(min=1e-6) / 448)).to(torch.float8_e5m2).float()


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)  # fault
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def half_factors():
    # Strides that 16 divides: what is loaded so goes to shared memory ahead of its use.
    return normal(200, 512, seed=185).half(), normal(512, 256, seed=186).half()


def multiplied_half():
    return half_factors()[0].double() @ half_factors()[1].double()


def multiply_half(tile, options):
    (a, b), c = half_factors(), torch.empty(200, 256)
    BM, BN, BK = tile
    matmul[(triton.cdiv(200, BM), triton.cdiv(256, BN))](a, b, c, 200, 256, 512, BM, BN, BK, **options)  # fault
    return c


def multiply_large_tiles():
    return multiply_half((256, 256, 128), {"num_stages": 4, "num_warps": 8})


def multiply_small_tiles():
    return multiply_half((64, 64, 64), {"num_stages": 4, "num_warps": 4})


def shallow(launch, depth, dtype):
    """Launches of a depth that tl.dot refuses and of one that it takes; this Triton's compiler tells the least."""
    least = min_dot_size(None)(dtype, dtype)[2]
    return partial(launch, min(depth, least // 2)), partial(launch, max(16, least))


def thin_factors():
    return tuple(factor.half() for factor in factors())


def multiplied_thin():
    a, b = thin_factors()
    return a.double() @ b.double()


def multiply_thin(BK):
    (a, b), c = thin_factors(), torch.empty(50, 40)
    matmul[(2, 2)](a, b, c, 50, 40, 72, BM=32, BN=32, BK=BK)  # fault
    return c


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BD: tl.constexpr, B: tl.constexpr):
    m, d = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, BD)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :], mask=(m[:, None] < S) & (d[None, :] < D), other=0.0)
    peak = tl.full((B,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((B,), dtype=tl.float32), tl.zeros((B, BD), dtype=tl.float32)
    for start in range(0, S, B):
        n = start + tl.arange(0, B)
        k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=(n[None, :] < S) & (d[:, None] < D), other=0.0)
        v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=(n[:, None] < S) & (d[None, :] < D), other=0.0)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))  # fault
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.exp(s - new_peak[:, None])
        shrink = tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
    o_at = o_ptr + m[:, None] * D + d[None, :]
    tl.store(o_at, acc / total[:, None], mask=(m[:, None] < S) & (d[None, :] < D))


def narrow_heads():
    return tuple(normal(50, 3, seed=seed) for seed in (187, 188, 189))


def attend_narrow(BD):
    (q, k, v), o = narrow_heads(), torch.empty(50, 3)
    attend[(2,)](q, k, v, o, 50, 0.5, D=3, BD=BD, B=32)  # fault
    return o


def narrow_attended():
    q, k, v = (t.double() for t in narrow_heads())
    return torch.softmax(q @ k.T * 0.5, dim=1) @ v


def attend_by(num_warps):
    (q, k, v), o = heads(), torch.empty(50, 32)
    attend[(4,)](q, k, v, o, 50, 32**-0.5, D=32, BD=32, B=16, num_warps=num_warps)  # fault
    return o


@triton.jit
def count_per_row_on_y(ids_ptr, counts_ptr, cols, bins, BLOCK: tl.constexpr):
    row, c = tl.program_id(1), tl.arange(0, BLOCK)
    id = tl.load(ids_ptr + row * cols + c, mask=c < cols, other=0)
    tl.atomic_add(counts_ptr + row % bins * 4 + id, 1, mask=c < cols)


@triton.jit
def count_per_row_on_x(ids_ptr, counts_ptr, cols, bins, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    id = tl.load(ids_ptr + row * cols + c, mask=c < cols, other=0)
    tl.atomic_add(counts_ptr + row % bins * 4 + id, 1, mask=c < cols)


def ids():
    return torch.randint(0, 4, (65_536, 3), generator=torch.Generator().manual_seed(190), dtype=torch.int32)


def count_tall():
    counts = torch.zeros(10, 4, dtype=torch.int32)
    count_per_row_on_y[(1, 65_536)](ids(), counts, 3, 10, BLOCK=4)  # fault
    return counts


def count_long():
    counts = torch.zeros(10, 4, dtype=torch.int32)
    count_per_row_on_x[(65_536,)](ids(), counts, 3, 10, BLOCK=4)
    return counts


def counted():
    places = torch.arange(65_536)[:, None] % 10 * 4 + ids()
    return torch.bincount(places.flatten(), minlength=40).view(10, 4)


CASES = (
    launched("rows on y", "vector", negate_tall, negate_long, lambda: -many_rows()),
    launched(
        "64 warps",
        "vector",
        swish_by_64_warps,
        swish_by_8_warps,
        lambda: torch.nn.functional.silu(normal(9000, seed=182).double()),
    ),
    seeded(
        "hundred lanes through helpers",
        "vector",
        double,
        (double_by_hundreds, double_by_powers),
        lambda: 2 * normal(1530, seed=183),
        (lanes_of_any_number,),
    ),
    launched("rows on z through helpers", "row", means_deep, means_long, lambda: many_rows().double().mean(1)),
    seeded("block of a whole row", "row", peak, (peak_of_whole_row, peak_of_row_in_blocks), lambda: wide_row().amax(1)),
    Seeded(
        "unlaunchable",
        "e4m3 on an A100",
        "row",
        quantise_to_e4m3,
        quantise_to_e5m2,
        (quantise, quantise_rows),
        target="a100",
        expected=quantised,
    ),
    launched(
        "four stages of large tiles",
        "matmul",
        multiply_large_tiles,
        multiply_small_tiles,
        multiplied_half,
        matmul,
        multiply_half,
    ),
    launched("product over 8", "matmul", *shallow(multiply_thin, 8, tl.float16), multiplied_thin, matmul),
    launched("head of 4", "attention", *shallow(attend_narrow, 4, tl.float32), narrow_attended, attend),
    launched("64 warps of attention", "attention", partial(attend_by, 64), partial(attend_by, 4), attended),
    launched("rows of counts on y", "atomic", count_tall, count_long, counted),
)
