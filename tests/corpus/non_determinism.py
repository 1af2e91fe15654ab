"""Results that depend on the order in which programs run: float atomics, and places handed out on arrival."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import heads, matrix, normal
from tests.corpus.model import Seeded, pair

seeded = partial(pair, "non-determinism")


def two_launches(name, shape, faulty, repaired, kernel, expected):
    """A repair that takes a second kernel: launches of their own."""
    return Seeded("non-determinism", name, shape, faulty, repaired, (kernel,), expected=expected)


@triton.jit
def sum_of_parts(parts_ptr, out_ptr, parts, width, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(parts_ptr + part * width + c, mask=c < width, other=0.0)
    tl.store(out_ptr + c, total, mask=c < width)


def add_up(parts, out):
    width = out.numel()
    sum_of_parts[(triton.cdiv(width, 64),)](parts, out, parts.shape[0], width, BLOCK=64)
    return out


@triton.jit
def dot_into_one(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x * y, axis=0))  # fault


@triton.jit
def dot_into_parts(x_ptr, y_ptr, parts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    tl.store(parts_ptr + tl.program_id(0), tl.sum(x * y, axis=0))


def vectors():
    return normal(5000, seed=101), normal(5000, seed=102)


def dot_at_once():
    out = torch.zeros(1)
    dot_into_one[(triton.cdiv(5000, 128),)](*vectors(), out, 5000, BLOCK=128)
    return out


def dot_in_two_stages():
    parts = torch.empty(triton.cdiv(5000, 128), 1)
    dot_into_parts[(parts.shape[0],)](*vectors(), parts, 5000, BLOCK=128)
    return add_up(parts, torch.empty(1))


@triton.jit
def add_loss(total_ptr, block, value):
    tl.atomic_add(total_ptr, value)  # fault


@triton.jit
def huber_at_once(prediction, target, inside, total_ptr, block):
    error = tl.abs(prediction - target)
    loss = tl.where(error < 1.0, 0.5 * error * error, error - 0.5)
    add_loss(total_ptr, block, tl.sum(tl.where(inside, loss, 0.0), axis=0))


@triton.jit
def loss_at_once(x_ptr, y_ptr, total_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    huber_at_once(x, y, i < n, total_ptr, tl.program_id(0))


@triton.jit
def keep_loss(parts_ptr, block, value):
    tl.store(parts_ptr + block, value)


@triton.jit
def huber_in_parts(prediction, target, inside, parts_ptr, block):
    error = tl.abs(prediction - target)
    loss = tl.where(error < 1.0, 0.5 * error * error, error - 0.5)
    keep_loss(parts_ptr, block, tl.sum(tl.where(inside, loss, 0.0), axis=0))


@triton.jit
def loss_in_parts(x_ptr, y_ptr, parts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    huber_in_parts(x, y, i < n, parts_ptr, tl.program_id(0))


def loss_of_all():
    total = torch.zeros(1)
    loss_at_once[(20,)](*vectors(), total, 5000, BLOCK=256)
    return total


def loss_of_blocks():
    parts = torch.empty(20, 1)
    loss_in_parts[(20,)](*vectors(), parts, 5000, BLOCK=256)
    return add_up(parts, torch.empty(1))


@triton.jit
def column_sums_atomic(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=inside, other=0.0)
    tl.atomic_add(out_ptr + c, tl.sum(x, axis=0), mask=c < cols)  # fault


@triton.jit
def column_sums_in_parts(x_ptr, parts_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=inside, other=0.0)
    tl.store(parts_ptr + tl.program_id(0) * cols + c, tl.sum(x, axis=0), mask=c < cols)


def bias_gradient_at_once():
    out = torch.zeros(93)
    column_sums_atomic[(10,)](matrix(), out, 37, 93, ROWS=4, BLOCK=128)
    return out


def bias_gradient_in_parts():
    parts = torch.empty(10, 93)
    column_sums_in_parts[(10,)](matrix(), parts, 37, 93, ROWS=4, BLOCK=128)
    return add_up(parts, torch.empty(93))


@triton.jit
def scatter_add(out_ptr, c, width, x):
    tl.atomic_add(out_ptr + c, x, mask=c < width)  # fault


@triton.jit
def add_token(x_ptr, ids_ptr, out_ptr, token, width, c):
    x = tl.load(x_ptr + token * width + c, mask=c < width, other=0.0)
    scatter_add(out_ptr + tl.load(ids_ptr + token) * width, c, width, x)


@triton.jit
def embedding_gradient_atomic(x_ptr, ids_ptr, out_ptr, tokens, width, BLOCK: tl.constexpr):
    add_token(x_ptr, ids_ptr, out_ptr, tl.program_id(0), width, tl.arange(0, BLOCK))


@triton.jit
def gathered_add(total, x, wanted):
    return total + tl.where(wanted, x, 0.0)


@triton.jit
def gather_token(x_ptr, ids_ptr, total, token, width, c):
    x = tl.load(x_ptr + token * width + c, mask=c < width, other=0.0)
    return gathered_add(total, x, tl.load(ids_ptr + token) == tl.program_id(0))


@triton.jit
def embedding_gradient(x_ptr, ids_ptr, out_ptr, tokens, width, BLOCK: tl.constexpr):
    c, total = tl.arange(0, BLOCK), tl.zeros((BLOCK,), dtype=tl.float32)
    for token in range(tokens):
        total = gather_token(x_ptr, ids_ptr, total, token, width, c)
    tl.store(out_ptr + tl.program_id(0) * width + c, total, mask=c < width)


def tokens():
    return normal(60, 40, seed=104), torch.randint(0, 5, (60,), generator=torch.Generator().manual_seed(105))


def backward_of_embedding(kernel):
    (x, ids), out = tokens(), torch.zeros(5, 40)
    kernel[(60 if kernel is embedding_gradient_atomic else 5,)](x, ids, out, 60, 40, BLOCK=64)
    return out


@triton.jit
def split_k_atomic(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(c_ptr + m[:, None] * N + n[None, :], tl.dot(a, b, input_precision="ieee"), mask=inside)  # fault


@triton.jit
def split_k_in_parts(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
    inside = (m[:, None] < M) & (n[None, :] < N)
    part_ptr = c_ptr + tl.program_id(1) * M * N
    tl.store(part_ptr + m[:, None] * N + n[None, :], tl.dot(a, b, input_precision="ieee"), mask=inside)


def deep_factors():
    return normal(50, 250, seed=106), normal(250, 30, seed=107)


def split_k_at_once():
    c = torch.zeros(50, 30)
    split_k_atomic[(2, 8)](*deep_factors(), c, 50, 30, 250, BM=32, BN=32, BK=32)
    return c


def split_k_in_two_stages():
    parts = torch.empty(8, 50, 30)
    split_k_in_parts[(2, 8)](*deep_factors(), parts, 50, 30, 250, BM=32, BN=32, BK=32)
    return add_up(parts, torch.empty(50, 30))


@triton.jit
def query_gradient_atomic(s_ptr, k_ptr, dq_ptr, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    n, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
    for start in range(0, S, BM):
        m = start + tl.arange(0, BM)
        ds = tl.load(s_ptr + m[:, None] * S + n[None, :], mask=(m[:, None] < S) & (n[None, :] < S), other=0.0)
        dq = tl.dot(ds, k, input_precision="ieee")
        tl.atomic_add(dq_ptr + m[:, None] * D + d[None, :], dq, mask=m[:, None] < S)  # fault


@triton.jit
def query_gradient(s_ptr, k_ptr, dq_ptr, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    dq = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        ds = tl.load(s_ptr + m[:, None] * S + n[None, :], mask=(m[:, None] < S) & (n[None, :] < S), other=0.0)
        dq = tl.dot(ds, k, dq, input_precision="ieee")
    tl.store(dq_ptr + m[:, None] * D + d[None, :], dq, mask=m[:, None] < S)


def score_gradients():
    return normal(50, 50, seed=108), heads()[1]


def backward_to_queries(kernel):
    (ds, k), dq = score_gradients(), torch.zeros(50, 32)
    kernel[(4,)](ds, k, dq, 50, D=32, BM=16, BN=16)
    return dq


@triton.jit
def weighted_histogram_atomic(bins_ptr, weights_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bin = tl.load(bins_ptr + i, mask=i < n, other=0)
    tl.atomic_add(out_ptr + bin, tl.load(weights_ptr + i, mask=i < n, other=0.0), mask=i < n)  # fault


@triton.jit
def weighted_histogram(bins_ptr, weights_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        bin = tl.load(bins_ptr + i, mask=i < n, other=-1)
        weight = tl.load(weights_ptr + i, mask=i < n, other=0.0)
        total += tl.where(bin == tl.program_id(0), weight, 0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, axis=0))


def weighted():
    return torch.randint(0, 11, (900,), generator=torch.Generator().manual_seed(109)), normal(900, seed=110)


def weigh(kernel):
    (which, weights), out = weighted(), torch.zeros(11)
    kernel[(15 if kernel is weighted_histogram_atomic else 11,)](which, weights, out, 900, BLOCK=64)
    return out


@triton.jit
def pack_on_arrival(x_ptr, free_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    kept = (x > 0).to(tl.int32)
    first = tl.atomic_add(free_ptr, tl.sum(kept, axis=0))  # fault
    tl.store(out_ptr + first + tl.cumsum(kept, axis=0) - 1, x, mask=x > 0)  # fault


@triton.jit
def pack_in_place(x_ptr, first_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    kept = (x > 0).to(tl.int32)
    first = tl.load(first_ptr + tl.program_id(0))
    tl.store(out_ptr + first + tl.cumsum(kept, axis=0) - 1, x, mask=x > 0)


def sparse():
    return normal(1000, seed=111)


def pack_as_they_come():
    x, free = sparse(), torch.zeros(1, dtype=torch.int32)
    out = torch.empty(int((x > 0).sum()))
    pack_on_arrival[(8,)](x, free, out, 1000, BLOCK=128)
    return out


def pack_by_counts():
    x = sparse()
    counts = torch.stack([(part > 0).sum() for part in x.split(128)])
    out = torch.empty(int(counts.sum()))
    pack_in_place[(8,)](x, (counts.cumsum(0) - counts).int(), out, 1000, BLOCK=128)
    return out


def dot_in_double():
    return torch.dot(*(t.double() for t in vectors())).reshape(1)


def loss_in_double():
    return torch.nn.functional.huber_loss(*(t.double() for t in vectors()), reduction="sum").reshape(1)


def embedding_gradient_in_double():
    x, ids = tokens()
    return torch.zeros(5, 40, dtype=torch.float64).index_add(0, ids, x.double())


CASES = (
    two_launches("dot product", "vector", dot_at_once, dot_in_two_stages, dot_into_one, dot_in_double),
    two_launches("loss through helpers", "vector", loss_of_all, loss_of_blocks, add_loss, loss_in_double),
    two_launches(
        "gradient of a bias",
        "row",
        bias_gradient_at_once,
        bias_gradient_in_parts,
        column_sums_atomic,
        lambda: matrix().double().sum(0),
    ),
    seeded(
        "gradient of an embedding through helpers",
        "row",
        backward_of_embedding,
        (embedding_gradient_atomic, embedding_gradient),
        embedding_gradient_in_double,
        (scatter_add,),
    ),
    two_launches(
        "split K",
        "matmul",
        split_k_at_once,
        split_k_in_two_stages,
        split_k_atomic,
        lambda: deep_factors()[0].double() @ deep_factors()[1].double(),
    ),
    seeded(
        "gradient of queries",
        "attention",
        backward_to_queries,
        (query_gradient_atomic, query_gradient),
        lambda: score_gradients()[0].double() @ score_gradients()[1].double(),
    ),
    seeded(
        "weighted histogram",
        "atomic",
        weigh,
        (weighted_histogram_atomic, weighted_histogram),
        lambda: torch.bincount(weighted()[0], weighted()[1].double(), minlength=11),
    ),
    two_launches(
        "places on arrival",
        "atomic",
        pack_as_they_come,
        pack_by_counts,
        pack_on_arrival,
        lambda: sparse()[sparse() > 0],
    ),
)
