"""Programs, or threads of one program, that touch one element with nothing to order them."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import heads, integer_product, matrix, normal, small_integers, vector
from tests.corpus.model import pair

seeded = partial(pair, "race")


@triton.jit
def blockwise_peak_overlapping(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * step + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=float("-inf"))
    tl.store(out_ptr + i, x - tl.max(x, axis=0), mask=i < n)  # fault


@triton.jit
def blockwise_peak(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * step + tl.arange(0, BLOCK)
    inside = (i < n) & (tl.arange(0, BLOCK) < step)
    x = tl.load(x_ptr + i, mask=inside, other=float("-inf"))
    tl.store(out_ptr + i, x - tl.max(x, axis=0), mask=inside)


def by_hundreds(kernel):
    x = vector()
    out = torch.empty_like(x)
    kernel[(15,)](x, out, 1500, 100, BLOCK=128)
    return out


def by_hundreds_expected():
    x = vector().double().reshape(15, 100)
    return (x - x.amax(1, keepdim=True)).reshape(-1)


@triton.jit
def smooth_in_place(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + i - 1, mask=(i > 0) & (i < n), other=0.0)  # fault
    here = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, (left + here) * 0.5, mask=i < n)  # fault


@triton.jit
def smooth_to_other(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + i - 1, mask=(i > 0) & (i < n), other=0.0)
    here = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, (left + here) * 0.5, mask=i < n)


def smooth(kernel):
    x = vector()
    out = x.clone()
    kernel[(triton.cdiv(1500, 256),)](x, out, 1500, BLOCK=256)
    return x if kernel is smooth_in_place else out


def smoothed():
    x = vector().double()
    return (x + torch.nn.functional.pad(x, (1, 0))[:-1]) * 0.5


@triton.jit
def butterflies_unordered(x_ptr, scratch_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    mine = scratch_ptr + row * BLOCK
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    step = 1
    while step < BLOCK:
        tl.store(mine + c, x)  # fault
        partner = tl.load(mine + (c ^ step))  # fault
        x = tl.where((c & step) == 0, x + partner, partner - x)
        step *= 2
    tl.store(out_ptr + row * BLOCK + c, x)


@triton.jit
def butterflies(x_ptr, scratch_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    mine = scratch_ptr + row * BLOCK
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    step = 1
    while step < BLOCK:
        tl.store(mine + c, x)
        tl.debug_barrier()
        partner = tl.load(mine + (c ^ step))
        tl.debug_barrier()
        x = tl.where((c & step) == 0, x + partner, partner - x)
        step *= 2
    tl.store(out_ptr + row * BLOCK + c, x)


def hadamard(kernel):
    scratch, out = torch.empty(37, 128), torch.empty(37, 128)
    kernel[(37,)](matrix(), scratch, out, 93, BLOCK=128)
    return out


def hadamard_expected():
    matrix_of_signs = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(7):
        top = torch.cat((matrix_of_signs, matrix_of_signs), dim=1)
        matrix_of_signs = torch.cat((top, torch.cat((matrix_of_signs, -matrix_of_signs), dim=1)))
    return torch.nn.functional.pad(matrix().double(), (0, 35)) @ matrix_of_signs


@triton.jit
def peak_of_row_in_pieces(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=-1000)
    tl.store(out_ptr + row, tl.max(x, axis=0))  # fault


@triton.jit
def peak_of_row_atomic(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=-1000)
    tl.atomic_max(out_ptr + row, tl.max(x, axis=0))


def integers():
    return (matrix() * 100).int()


def peaks(kernel):
    x, out = integers(), torch.full((37,), -1000, dtype=torch.int32)
    kernel[(37, 3)](x, out, 93, BLOCK=32)
    return out


@triton.jit
def split_k_unordered(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.program_id(2) * BK + tl.arange(0, BK)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0)
    place, inside = c_ptr + m[:, None] * N + n[None, :], (m[:, None] < M) & (n[None, :] < N)
    old = tl.load(place, mask=inside)  # fault
    tl.store(place, old + tl.dot(a, b), mask=inside)  # fault


@triton.jit
def split_k_atomic(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.program_id(2) * BK + tl.arange(0, BK)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0)
    place, inside = c_ptr + m[:, None] * N + n[None, :], (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(place, tl.dot(a, b), mask=inside)


def split_k(kernel):
    a, b = small_integers()
    c = torch.zeros((50, 40), dtype=torch.int32)
    kernel[(2, 2, 3)](a, b, c, 50, 40, 96, BM=32, BN=32, BK=32)
    return c


@triton.jit
def part_of_attention(q_ptr, k_ptr, v_ptr, part, S, scale, D: tl.constexpr, BN: tl.constexpr):
    d, n = tl.arange(0, D), part * BN + tl.arange(0, BN)
    q = tl.load(q_ptr + d)
    k = tl.load(k_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
    v = tl.load(v_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
    s = tl.where(n < S, tl.sum(q[None, :] * k, axis=1) * scale, float("-inf"))
    peak = tl.max(s, axis=0)
    p = tl.exp(s - peak)
    return peak, tl.sum(p, axis=0), tl.sum(p[:, None] * v, axis=0)


@triton.jit
def decode_last_program(
    q, k, v, parts_ptr, done_ptr, o, S, scale, PARTS: tl.constexpr, D: tl.constexpr, BN: tl.constexpr
):
    part, d = tl.program_id(0), tl.arange(0, D)
    peak, total, acc = part_of_attention(q, k, v, part, S, scale, D, BN)
    row = parts_ptr + part * (D + 2)
    tl.store(row, peak)  # fault
    tl.store(row + 1, total)  # fault
    tl.store(row + 2 + d, acc)  # fault
    tl.debug_barrier()
    tl.atomic_add(done_ptr, 1)
    if part == PARTS - 1:
        every = parts_ptr + tl.arange(0, PARTS) * (D + 2)
        peaks = tl.load(every)  # fault
        weights = tl.exp(peaks - tl.max(peaks, axis=0))
        total = tl.sum(weights * tl.load(every + 1), axis=0)  # fault
        accs = tl.load(every[:, None] + 2 + d[None, :])  # fault
        tl.store(o + d, tl.sum(weights[:, None] * accs, axis=0) / total)


@triton.jit
def decode_last_arrival(
    q, k, v, parts_ptr, done_ptr, o, S, scale, PARTS: tl.constexpr, D: tl.constexpr, BN: tl.constexpr
):
    part, d = tl.program_id(0), tl.arange(0, D)
    peak, total, acc = part_of_attention(q, k, v, part, S, scale, D, BN)
    row = parts_ptr + part * (D + 2)
    tl.store(row, peak)
    tl.store(row + 1, total)
    tl.store(row + 2 + d, acc)
    tl.debug_barrier()
    if tl.atomic_add(done_ptr, 1) == PARTS - 1:
        every = parts_ptr + tl.arange(0, PARTS) * (D + 2)
        peaks = tl.load(every)
        weights = tl.exp(peaks - tl.max(peaks, axis=0))
        total = tl.sum(weights * tl.load(every + 1), axis=0)
        accs = tl.load(every[:, None] + 2 + d[None, :])
        tl.store(o + d, tl.sum(weights[:, None] * accs, axis=0) / total)


def decode(kernel):
    q, k, v = heads()
    parts, done, out = torch.empty(4, 34), torch.zeros(1, dtype=torch.int32), torch.empty(32)
    kernel[(4,)](q[0], k, v, parts, done, out, 50, 32**-0.5, PARTS=4, D=32, BN=16)
    return out


def decoded():
    q, k, v = (t.double() for t in heads())
    return torch.softmax(q[0] @ k.T * 32**-0.5, dim=0) @ v


@triton.jit
def best_without_lock(x_ptr, best_ptr, where_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=float("-inf"))
    value, index = tl.max(x, axis=0), tl.program_id(0) * BLOCK + tl.argmax(x, axis=0)
    old, old_index = tl.load(best_ptr), tl.load(where_ptr)  # fault
    if (value > old) | ((value == old) & (index < old_index)):
        tl.store(best_ptr, value)  # fault
        tl.store(where_ptr, index)  # fault


@triton.jit
def best_under_lock(x_ptr, best_ptr, where_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=float("-inf"))
    value, index = tl.max(x, axis=0), tl.program_id(0) * BLOCK + tl.argmax(x, axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    old, old_index = tl.load(best_ptr), tl.load(where_ptr)
    if (value > old) | ((value == old) & (index < old_index)):
        tl.store(best_ptr, value)
        tl.store(where_ptr, index)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def best(kernel):
    x, lock = vector(), torch.zeros(1, dtype=torch.int32)
    value, where = torch.full((1,), float("-inf")), torch.full((1,), -1, dtype=torch.int32)
    kernel[(triton.cdiv(1500, 256),)](x, value, where, lock, 1500, BLOCK=256)
    return where


@triton.jit
def add_plain(ptr, amount, keep):
    tl.store(ptr, tl.load(ptr, mask=keep, other=0) + amount, mask=keep)  # fault


@triton.jit
def count_plain(counts_ptr, labels, keep):
    add_plain(counts_ptr + labels, 1, keep)


@triton.jit
def histogram_plain(labels_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count_plain(counts_ptr, tl.load(labels_ptr + i, mask=i < n, other=0), i < n)


@triton.jit
def add_atomic(ptr, amount, keep):
    tl.atomic_add(ptr, amount, mask=keep)


@triton.jit
def count_atomic(counts_ptr, labels, keep):
    add_atomic(counts_ptr + labels, 1, keep)


@triton.jit
def histogram_atomic(labels_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    count_atomic(counts_ptr, tl.load(labels_ptr + i, mask=i < n, other=0), i < n)


def labels():
    torch.manual_seed(31)
    return torch.randint(0, 12, (700,), dtype=torch.int32)


def histogram(kernel):
    counts = torch.zeros(12, dtype=torch.int32)
    kernel[(triton.cdiv(700, 128),)](labels(), counts, 700, BLOCK=128)
    return counts


@triton.jit
def shared_slot(slots_ptr, group, width):
    return slots_ptr + group // 2 * width


@triton.jit
def publish(slots_ptr, group, width, c, value):
    tl.store(shared_slot(slots_ptr, group, width) + c, value, mask=c < width)  # fault


@triton.jit
def group_sums_sharing(x_ptr, slots_ptr, group_rows, width, BLOCK: tl.constexpr):
    group, c = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(group * group_rows, (group + 1) * group_rows):
        total += tl.load(x_ptr + row * width + c, mask=c < width, other=0.0)
    publish(slots_ptr, group, width, c, total)


@triton.jit
def own_slot(slots_ptr, group, width):
    return slots_ptr + group * width


@triton.jit
def publish_own(slots_ptr, group, width, c, value):
    tl.store(own_slot(slots_ptr, group, width) + c, value, mask=c < width)


@triton.jit
def group_sums(x_ptr, slots_ptr, group_rows, width, BLOCK: tl.constexpr):
    group, c = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(group * group_rows, (group + 1) * group_rows):
        total += tl.load(x_ptr + row * width + c, mask=c < width, other=0.0)
    publish_own(slots_ptr, group, width, c, total)


def grouped():
    return normal(6, 4, 50, seed=32)


def sum_groups(kernel):
    slots = torch.zeros(6, 50)
    kernel[(6,)](grouped(), slots, 4, 50, BLOCK=64)
    return slots


CASES = (
    seeded("blocks overlap", "vector", by_hundreds, (blockwise_peak_overlapping, blockwise_peak), by_hundreds_expected),
    seeded("neighbour in place", "vector", smooth, (smooth_in_place, smooth_to_other), smoothed),
    seeded("exchange without barriers", "row", hadamard, (butterflies_unordered, butterflies), hadamard_expected),
    seeded(
        "last piece of the row wins",
        "row",
        peaks,
        (peak_of_row_in_pieces, peak_of_row_atomic),
        lambda: integers().amax(1),
    ),
    seeded(
        "slot shared through helpers",
        "row",
        sum_groups,
        (group_sums_sharing, group_sums),
        lambda: grouped().double().sum(1),
        (publish,),
    ),
    seeded("split K reads and adds", "matmul", split_k, (split_k_unordered, split_k_atomic), integer_product),
    seeded("last program, not last arrival", "attention", decode, (decode_last_program, decode_last_arrival), decoded),
    seeded(
        "lock is not taken", "atomic", best, (best_without_lock, best_under_lock), lambda: vector().argmax().reshape(1)
    ),
    seeded(
        "plain add through helpers",
        "atomic",
        histogram,
        (histogram_plain, histogram_atomic),
        lambda: torch.bincount(labels(), minlength=12),
        (add_plain,),
    ),
)
