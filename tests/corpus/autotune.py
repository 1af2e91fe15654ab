"""Kernels under autotune that change what they read: each configuration that is timed changes it again."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import integer_product, normal, small_integers
from tests.corpus.model import pair

CONFIGS = [triton.Config({"BLOCK": 128}, num_warps=4), triton.Config({"BLOCK": 256}, num_warps=8)]
TILES = [triton.Config({"BM": 32, "BN": 32}, num_stages=3), triton.Config({"BM": 16, "BN": 64}, num_stages=4)]


def seeded(name, shape, launch, kernels, expected, *lines):
    """The fault is in the decorator; it shows where the kernel is launched, and where `lines` store."""
    return pair("autotune", name, shape, launch, kernels, expected, (kernels[0], launch, *lines))


@triton.jit
def grow(x_ptr, i, n, step):
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(x_ptr + i, x + step * tl.abs(x), mask=i < n)  # fault


@triton.autotune(configs=CONFIGS, key=["n"])  # fault
@triton.jit
def grow_tuned(x_ptr, n, step, BLOCK: tl.constexpr):
    grow(x_ptr, tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), n, step)


@triton.autotune(configs=CONFIGS, key=["n"], restore_value=["x_ptr"])
@triton.jit
def grow_restored(x_ptr, n, step, BLOCK: tl.constexpr):
    grow(x_ptr, tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), n, step)


def grow_vector(kernel):
    x = normal(1500, seed=161)
    kernel[lambda meta: (triton.cdiv(1500, meta["BLOCK"]),)](x, 1500, 0.5)  # fault
    return x


@triton.jit
def with_momentum(velocity, gradient, decay):
    return velocity * decay + gradient


@triton.jit
def descend(w_ptr, v_ptr, g_ptr, i, n, rate, decay):
    v = with_momentum(tl.load(v_ptr + i, mask=i < n, other=0.0), tl.load(g_ptr + i, mask=i < n, other=0.0), decay)
    tl.store(v_ptr + i, v, mask=i < n)  # fault
    tl.store(w_ptr + i, tl.load(w_ptr + i, mask=i < n, other=0.0) - rate * v, mask=i < n)  # fault


@triton.autotune(configs=CONFIGS, key=["n"])  # fault
@triton.jit
def descend_tuned(w_ptr, v_ptr, g_ptr, n, rate, decay, BLOCK: tl.constexpr):
    descend(w_ptr, v_ptr, g_ptr, tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), n, rate, decay)


@triton.autotune(configs=CONFIGS, key=["n"], restore_value=["w_ptr", "v_ptr"])
@triton.jit
def descend_restored(w_ptr, v_ptr, g_ptr, n, rate, decay, BLOCK: tl.constexpr):
    descend(w_ptr, v_ptr, g_ptr, tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), n, rate, decay)


def parameters():
    return tuple(normal(2000, seed=seed) for seed in (162, 163, 164))


def optimise(kernel):
    w, v, g = parameters()
    kernel[lambda meta: (triton.cdiv(2000, meta["BLOCK"]),)](w, v, g, 2000, 0.125, 0.5)  # fault
    return torch.stack((w, v))


def optimised():
    w, v, g = (t.double() for t in parameters())
    return torch.stack((w - 0.125 * (v * 0.5 + g), v * 0.5 + g))


@triton.jit
def accumulate_softmax_gradient(y_ptr, dy_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    row, total = tl.program_id(0) * cols, tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        y = tl.load(y_ptr + row + c, mask=c < cols, other=0.0)
        total += y * tl.load(dy_ptr + row + c, mask=c < cols, other=0.0)
    mean = tl.sum(total, axis=0)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        y = tl.load(y_ptr + row + c, mask=c < cols, other=0.0)
        dx = y * (tl.load(dy_ptr + row + c, mask=c < cols, other=0.0) - mean)
        tl.store(dx_ptr + row + c, tl.load(dx_ptr + row + c, mask=c < cols, other=0.0) + dx, mask=c < cols)  # fault


@triton.autotune(configs=CONFIGS, key=["cols"])  # fault
@triton.jit
def softmax_gradient_tuned(y_ptr, dy_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    accumulate_softmax_gradient(y_ptr, dy_ptr, dx_ptr, cols, BLOCK)


@triton.autotune(configs=CONFIGS, key=["cols"], reset_to_zero=["dx_ptr"])
@triton.jit
def softmax_gradient_from_zero(y_ptr, dy_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    accumulate_softmax_gradient(y_ptr, dy_ptr, dx_ptr, cols, BLOCK)


def softmax_and_gradient():
    return normal(17, 300, seed=165).softmax(1), normal(17, 300, seed=166)


def backward_of_softmax(kernel):
    (y, dy), dx = softmax_and_gradient(), torch.zeros(17, 300)
    kernel[(17,)](y, dy, dx, 300)  # fault
    return dx


def softmax_gradient():
    y, dy = (t.double() for t in softmax_and_gradient())
    return y * (dy - (y * dy).sum(1, keepdim=True))


@triton.jit
def blend(old, new, momentum):
    return old + momentum * (new - old)


@triton.jit
def update_statistic(stat_ptr, column, new, momentum):
    tl.store(stat_ptr + column, blend(tl.load(stat_ptr + column), new, momentum))  # fault


@triton.jit
def follow_means(x_ptr, stat_ptr, rows, cols, momentum, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, rows, BLOCK):
        r = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + r * cols + tl.program_id(0), mask=r < rows, other=0.0)
    update_statistic(stat_ptr, tl.program_id(0), tl.sum(total, axis=0) / rows, momentum)


@triton.autotune(configs=CONFIGS, key=["rows"])  # fault
@triton.jit
def follow_means_tuned(x_ptr, stat_ptr, rows, cols, momentum, BLOCK: tl.constexpr):
    follow_means(x_ptr, stat_ptr, rows, cols, momentum, BLOCK)


@triton.autotune(configs=CONFIGS, key=["rows"], restore_value=["stat_ptr"])
@triton.jit
def follow_means_restored(x_ptr, stat_ptr, rows, cols, momentum, BLOCK: tl.constexpr):
    follow_means(x_ptr, stat_ptr, rows, cols, momentum, BLOCK)


def batch_and_means():
    return normal(300, 12, seed=167), normal(12, seed=168)


def follow(kernel):
    x, means = batch_and_means()
    kernel[(12,)](x, means, 300, 12, 0.25)  # fault
    return means


def followed():
    x, means = (t.double() for t in batch_and_means())
    return means + 0.25 * (x.mean(0) - means)


@triton.jit
def add_product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    acc = tl.load(c_ptr + m[:, None] * N + n[None, :], mask=inside, other=0.0)
    for start in range(0, K, 32):
        k = start + tl.arange(0, 32)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=inside)  # fault


@triton.autotune(configs=TILES, key=["M", "N", "K"])  # fault
@triton.jit
def add_product_tuned(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    add_product(a_ptr, b_ptr, c_ptr, M, N, K, BM, BN)


@triton.autotune(configs=TILES, key=["M", "N", "K"], restore_value=["c_ptr"])
@triton.jit
def add_product_restored(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    add_product(a_ptr, b_ptr, c_ptr, M, N, K, BM, BN)


def terms():
    return normal(50, 72, seed=169), normal(72, 70, seed=170), normal(50, 70, seed=171)


def tiles_of(M, N, meta):
    return triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"])


def multiply_and_add(kernel):
    a, b, c = terms()
    kernel[partial(tiles_of, 50, 70)](a, b, c, 50, 70, 72)  # fault
    return c


def multiplied_and_added():
    a, b, c = (t.double() for t in terms())
    return c + a @ b


@triton.jit
def split_k(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.program_id(2) * 32 + tl.arange(0, 32)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b, out_dtype=tl.int32), mask=inside)  # fault


@triton.autotune(configs=TILES, key=["M", "N", "K"])  # fault
@triton.jit
def split_k_tuned(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    split_k(a_ptr, b_ptr, c_ptr, M, N, K, BM, BN)


@triton.autotune(configs=TILES, key=["M", "N", "K"], reset_to_zero=["c_ptr"])
@triton.jit
def split_k_from_zero(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    split_k(a_ptr, b_ptr, c_ptr, M, N, K, BM, BN)


def multiply_split(kernel):
    (a, b), c = small_integers(), torch.zeros(50, 40, dtype=torch.int32)
    kernel[lambda meta: (*tiles_of(50, 40, meta), 3)](a, b, c, 50, 40, 96)  # fault
    return c


@triton.jit
def merge_attention(o_ptr, lse_ptr, new_ptr, new_lse_ptr, width, BLOCK: tl.constexpr):
    row, d = tl.program_id(0), tl.arange(0, BLOCK)
    old_lse, new_lse = tl.load(lse_ptr + row), tl.load(new_lse_ptr + row)
    peak = tl.maximum(old_lse, new_lse)
    lse = peak + tl.log(tl.exp(old_lse - peak) + tl.exp(new_lse - peak))
    o = tl.load(o_ptr + row * width + d, mask=d < width, other=0.0) * tl.exp(old_lse - lse)
    o += tl.load(new_ptr + row * width + d, mask=d < width, other=0.0) * tl.exp(new_lse - lse)
    tl.store(o_ptr + row * width + d, o, mask=d < width)  # fault
    tl.store(lse_ptr + row, lse)  # fault


@triton.autotune(configs=CONFIGS, key=["width"])  # fault
@triton.jit
def merge_tuned(o_ptr, lse_ptr, new_ptr, new_lse_ptr, width, BLOCK: tl.constexpr):
    merge_attention(o_ptr, lse_ptr, new_ptr, new_lse_ptr, width, BLOCK)


@triton.autotune(configs=CONFIGS, key=["width"], restore_value=["o_ptr", "lse_ptr"])
@triton.jit
def merge_restored(o_ptr, lse_ptr, new_ptr, new_lse_ptr, width, BLOCK: tl.constexpr):
    merge_attention(o_ptr, lse_ptr, new_ptr, new_lse_ptr, width, BLOCK)


def partial_outputs():
    return normal(30, 100, seed=172), normal(30, seed=173), normal(30, 100, seed=174), normal(30, seed=175)


def merge(kernel):
    o, lse, new, new_lse = partial_outputs()
    kernel[(30,)](o, lse, new, new_lse, 100)  # fault
    return torch.cat((o, lse[:, None]), dim=1)


def merged():
    o, lse, new, new_lse = (t.double() for t in partial_outputs())
    both = torch.logaddexp(lse, new_lse)
    o = o * (lse - both).exp()[:, None] + new * (new_lse - both).exp()[:, None]
    return torch.cat((o, both[:, None]), dim=1)


@triton.jit
def count_experts(ids_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + tl.load(ids_ptr + i, mask=i < n, other=0), 1, mask=i < n)  # fault


@triton.autotune(configs=CONFIGS, key=["n"])  # fault
@triton.jit
def count_experts_tuned(ids_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    count_experts(ids_ptr, counts_ptr, n, BLOCK)


@triton.autotune(configs=CONFIGS, key=["n"], reset_to_zero=["counts_ptr"])
@triton.jit
def count_experts_from_zero(ids_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    count_experts(ids_ptr, counts_ptr, n, BLOCK)


def experts():
    return torch.randint(0, 8, (1100,), generator=torch.Generator().manual_seed(176))


def count_tokens(kernel):
    counts = torch.zeros(8, dtype=torch.int32)
    kernel[lambda meta: (triton.cdiv(1100, meta["BLOCK"]),)](experts(), counts, 1100)  # fault
    return counts


def grown():
    x = normal(1500, seed=161).double()
    return x + 0.5 * x.abs()


def tokens_counted():
    return torch.bincount(experts(), minlength=8)


SOFTMAX = softmax_gradient_tuned, softmax_gradient_from_zero
PRODUCT = add_product_tuned, add_product_restored
COUNTS = count_experts_tuned, count_experts_from_zero
CASES = (
    seeded("grown in place", "vector", grow_vector, (grow_tuned, grow_restored), grown, grow),
    seeded("optimiser through helpers", "vector", optimise, (descend_tuned, descend_restored), optimised, descend),
    seeded("gradient added", "row", backward_of_softmax, SOFTMAX, softmax_gradient, accumulate_softmax_gradient),
    seeded(
        "running means through helpers",
        "row",
        follow,
        (follow_means_tuned, follow_means_restored),
        followed,
        update_statistic,
    ),
    seeded("product added", "matmul", multiply_and_add, PRODUCT, multiplied_and_added, add_product),
    seeded("split K", "matmul", multiply_split, (split_k_tuned, split_k_from_zero), integer_product, split_k),
    seeded("outputs merged", "attention", merge, (merge_tuned, merge_restored), merged, merge_attention),
    seeded("tokens counted", "atomic", count_tokens, COUNTS, tokens_counted, count_experts),
)
