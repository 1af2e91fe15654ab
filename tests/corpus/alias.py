"""Outputs that overlap inputs, launched on kernels that read again what they wrote over."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import attended, heads, matrix, normal
from tests.corpus.model import Seeded


def seeded(name, shape, faulty, repaired, lines, expected):
    """The fault is in the launch: the kernel is the same on both sides, `lines` hold its loads and stores."""
    return Seeded("alias", name, shape, faulty, repaired, (faulty, *lines), expected=expected)


@triton.jit
def gains(x_ptr, loud_ptr, quiet_ptr, n, loud, quiet, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(loud_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) * loud, mask=i < n)  # fault
    tl.store(quiet_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) * quiet, mask=i < n)  # fault


def gains_over_input():
    x = normal(1500, seed=141)
    quiet = torch.empty_like(x)
    gains[(6,)](x, x, quiet, 1500, 4.0, 0.25, BLOCK=256)  # fault
    return torch.stack((x, quiet))


def gains_beside_input():
    x = normal(1500, seed=141)
    loud, quiet = torch.empty_like(x), torch.empty_like(x)
    gains[(6,)](x, loud, quiet, 1500, 4.0, 0.25, BLOCK=256)
    return torch.stack((loud, quiet))


@triton.jit
def scale_into(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)  # fault
    tl.store(out_ptr + i, x * scale, mask=i < n)  # fault


def shift_within_a_buffer():
    buffer = normal(1501, seed=142)
    x, out = buffer[:-1], buffer[1:]
    scale_into[(triton.cdiv(1500, 128),)](x, out, 1500, 0.5, BLOCK=128)  # fault
    return out.clone()


def shift_to_another_buffer():
    x, out = normal(1501, seed=142)[:-1], torch.empty(1501)[1:]
    scale_into[(triton.cdiv(1500, 128),)](x, out, 1500, 0.5, BLOCK=128)
    return out.clone()


@triton.jit
def add_norm(x_ptr, residual_ptr, sum_ptr, out_ptr, cols, eps, BLOCK: tl.constexpr):
    start_of_row, square = tl.program_id(0) * cols, tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + start_of_row + c, mask=c < cols, other=0.0)
        x += tl.load(residual_ptr + start_of_row + c, mask=c < cols, other=0.0)
        tl.store(sum_ptr + start_of_row + c, x, mask=c < cols)  # fault
        square += x * x
    scale = tl.rsqrt(tl.sum(square, axis=0) / cols + eps)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + start_of_row + c, mask=c < cols, other=0.0)
        x += tl.load(residual_ptr + start_of_row + c, mask=c < cols, other=0.0)  # fault
        tl.store(out_ptr + start_of_row + c, x * scale, mask=c < cols)


def residuals():
    return matrix(), normal(37, 93, seed=143)


def add_norm_in_place():
    (x, residual), out = residuals(), torch.empty(37, 93)
    add_norm[(37,)](x, residual, residual, out, 93, 1e-6, BLOCK=32)  # fault
    return torch.stack((residual, out))


def add_norm_beside():
    (x, residual), total, out = residuals(), torch.empty(37, 93), torch.empty(37, 93)
    add_norm[(37,)](x, residual, total, out, 93, 1e-6, BLOCK=32)
    return torch.stack((total, out))


def add_norm_expected():
    total = residuals()[0].double() + residuals()[1].double()
    return torch.stack((total, total * (total.square().mean(1, keepdim=True) + 1e-6).rsqrt()))


@triton.jit
def flip_rows(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + cols - 1 - c, mask=c < cols, other=0.0)  # fault
        tl.store(out_ptr + row * cols + c, x, mask=c < cols)  # fault


def flip_in_place():
    x = matrix()
    flip_rows[(37,)](x, x, 93, BLOCK=16)  # fault
    return x


def flip_to_other():
    x, out = matrix(), torch.empty(37, 93)
    flip_rows[(37,)](x, out, 93, BLOCK=16)
    return out


@triton.jit
def at_step(x_ptr, t, c, channels):
    return tl.load(x_ptr + t * channels + c, mask=c < channels, other=0.0)  # fault


@triton.jit
def mix_steps(x_ptr, out_ptr, t, c, channels, mix):
    before = at_step(x_ptr, t - 1, c, channels)
    here = at_step(x_ptr, t, c, channels)
    tl.store(out_ptr + t * channels + c, mix * here + (1 - mix) * before, mask=c < channels)  # fault


@triton.jit
def token_shift(x_ptr, mix_ptr, out_ptr, steps, channels, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mix = tl.load(mix_ptr + c, mask=c < channels, other=0.0)
    first = tl.load(x_ptr + c, mask=c < channels, other=0.0)
    tl.store(out_ptr + c, mix * first, mask=c < channels)
    for t in range(1, steps):
        mix_steps(x_ptr, out_ptr, t, c, channels, mix)


def sequence():
    return normal(20, 70, seed=144), normal(70, seed=145).sigmoid()


def shift_tokens_in_place():
    x, mix = sequence()
    token_shift[(3,)](x, mix, x, 20, 70, BLOCK=32)  # fault
    return x


def shift_tokens_to_other():
    (x, mix), out = sequence(), torch.empty(20, 70)
    token_shift[(3,)](x, mix, out, 20, 70, BLOCK=32)
    return out


def shifted_tokens():
    x, mix = (t.double() for t in sequence())
    return mix * x + (1 - mix) * torch.nn.functional.pad(x, (0, 0, 1, 0))[:-1]


@triton.jit
def sample_before(x_ptr, t, lag, n):
    return tl.load(x_ptr + t - lag, mask=(t >= lag) & (t < n), other=0.0)  # fault


@triton.jit
def three_samples(x_ptr, t, n):
    return sample_before(x_ptr, t, 0, n), sample_before(x_ptr, t, 1, n), sample_before(x_ptr, t, 2, n)


@triton.jit
def causal_filter(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here, before, earlier = three_samples(x_ptr, t, n)
    tl.store(out_ptr + t, 0.5 * here + 0.3 * before + 0.2 * earlier, mask=t < n)  # fault


def filter_in_place():
    x = normal(1500, seed=146)
    causal_filter[(triton.cdiv(1500, 128),)](x, x, 1500, BLOCK=128)  # fault
    return x


def filter_to_other():
    x, out = normal(1500, seed=146), torch.empty(1500)
    causal_filter[(triton.cdiv(1500, 128),)](x, out, 1500, BLOCK=128)
    return out


def filtered():
    padded = torch.nn.functional.pad(normal(1500, seed=146).double(), (2, 0))
    return 0.5 * padded[2:] + 0.3 * padded[1:-1] + 0.2 * padded[:-2]


@triton.jit
def transpose(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    r, c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (r[:, None] < N) & (c[None, :] < N)
    x = tl.load(x_ptr + r[:, None] * N + c[None, :], mask=inside, other=0.0)  # fault
    tl.store(out_ptr + c[:, None] * N + r[None, :], tl.trans(x), mask=tl.trans(inside))  # fault


def transpose_in_place():
    x = normal(50, 50, seed=147)
    transpose[(4, 4)](x, x, 50, BLOCK=16)  # fault
    return x


def transpose_to_other():
    x, out = normal(50, 50, seed=147), torch.empty(50, 50)
    transpose[(4, 4)](x, out, 50, BLOCK=16)
    return out


@triton.jit
def matmul_row_blocks(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    for first in range(0, N, BN):
        n, acc = first + tl.arange(0, BN), tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            a_inside = (m[:, None] < M) & (k[None, :] < K)
            a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=a_inside, other=0.0)  # fault
            b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
        tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))  # fault


def square_factors():
    return normal(50, 48, seed=148), normal(48, 48, seed=149)


def multiply_into_factor():
    a, b = square_factors()
    matmul_row_blocks[(2,)](a, b, a, 50, 48, 48, BM=32, BN=32, BK=32)  # fault
    return a


def multiply_into_product():
    (a, b), c = square_factors(), torch.empty(50, 48)
    matmul_row_blocks[(2,)](a, b, c, 50, 48, 48, BM=32, BN=32, BK=32)
    return c


@triton.jit
def slice_of_queries(q_ptr, m, e, S, D: tl.constexpr):
    return tl.load(q_ptr + m[:, None] * D + e[None, :], mask=m[:, None] < S, other=0.0)  # fault


@triton.jit
def slice_of_values(v_ptr, n, e, S, D: tl.constexpr):
    return tl.load(v_ptr + n[:, None] * D + e[None, :], mask=n[:, None] < S, other=0.0)  # fault


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    for part in range(0, D, BD):
        # One slice of the head at a time: scores are made again, so that less is held in registers.
        s = tl.zeros((BM, BN), dtype=tl.float32)
        for start in range(0, D, BD):
            d = start + tl.arange(0, BD)
            k = tl.load(k_ptr + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
            s = tl.dot(slice_of_queries(q_ptr, m, d, S, D), k, s, input_precision="ieee")
        s = tl.where(n[None, :] < S, s * scale, float("-inf"))
        p = tl.exp(s - tl.max(s, axis=1)[:, None])
        e = part + tl.arange(0, BD)
        o = tl.dot(p, slice_of_values(v_ptr, n, e, S, D), input_precision="ieee") / tl.sum(p, axis=1)[:, None]
        tl.store(o_ptr + m[:, None] * D + e[None, :], o, mask=m[:, None] < S)  # fault


def attend_over_queries():
    q, k, v = heads()
    attend[(4,)](q, k, v, q, 50, 32**-0.5, D=32, BM=16, BN=64, BD=16)  # fault
    return q


def attend_over_values():
    q, k, v = heads()
    attend[(4,)](q, k, v, v, 50, 32**-0.5, D=32, BM=16, BN=64, BD=16)  # fault
    return v


def attend_beside():
    (q, k, v), o = heads(), torch.empty(50, 32)
    attend[(4,)](q, k, v, o, 50, 32**-0.5, D=32, BM=16, BN=64, BD=16)
    return o


@triton.jit
def spread(x_ptr, targets_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)  # fault
    target = tl.load(targets_ptr + i, mask=i < n, other=0)
    tl.atomic_add(out_ptr + target, x, mask=i < n)  # fault


def edges():
    chance = torch.Generator().manual_seed(150)
    return torch.randint(1, 50, (400,), generator=chance), torch.randint(0, 400, (400,), generator=chance)


def spread_in_place():
    x, targets = edges()
    spread[(triton.cdiv(400, 64),)](x, targets, x, 400, BLOCK=64)  # fault
    return x


def spread_to_copy():
    x, targets = edges()
    out = x.clone()
    spread[(triton.cdiv(400, 64),)](x, targets, out, 400, BLOCK=64)
    return out


def spread_expected():
    x, targets = edges()
    return x.index_add(0, targets, x)


def with_gains():
    x = normal(1500, seed=141).double()
    return torch.stack((x * 4, x / 4))


CASES = (
    seeded("input read after the first output", "vector", gains_over_input, gains_beside_input, (gains,), with_gains),
    seeded(
        "shift within a buffer",
        "vector",
        shift_within_a_buffer,
        shift_to_another_buffer,
        (scale_into,),
        lambda: normal(1501, seed=142)[:-1].double() / 2,
    ),
    seeded(
        "filter in place through helpers",
        "vector",
        filter_in_place,
        filter_to_other,
        (sample_before, causal_filter),
        filtered,
    ),
    seeded("residual read twice", "row", add_norm_in_place, add_norm_beside, (add_norm,), add_norm_expected),
    seeded("flip in place", "row", flip_in_place, flip_to_other, (flip_rows,), lambda: matrix().flip(1)),
    seeded(
        "step before overwritten, through helpers",
        "row",
        shift_tokens_in_place,
        shift_tokens_to_other,
        (at_step, mix_steps),
        shifted_tokens,
    ),
    seeded(
        "transpose in place",
        "matmul",
        transpose_in_place,
        transpose_to_other,
        (transpose,),
        lambda: normal(50, 50, seed=147).T,
    ),
    seeded(
        "product over a factor",
        "matmul",
        multiply_into_factor,
        multiply_into_product,
        (matmul_row_blocks,),
        lambda: square_factors()[0].double() @ square_factors()[1].double(),
    ),
    seeded(
        "output over queries", "attention", attend_over_queries, attend_beside, (attend, slice_of_queries), attended
    ),
    seeded("output over values", "attention", attend_over_values, attend_beside, (attend, slice_of_values), attended),
    seeded("sums spread in place", "atomic", spread_in_place, spread_to_copy, (spread,), spread_expected),
)
