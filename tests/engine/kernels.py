"""Hand-written kernels that exercise the engine as a whole."""

# The kernels are Triton's language and not Python's, so its types do not apply to them.
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportOptionalMemberAccess=false
# pyright: reportOperatorIssue=false, reportPrivateImportUsage=false, reportAssignmentType=false
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def softmax(x, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * stride + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + offsets, numerator / tl.sum(numerator, 0), mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, BLOCK: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK, BLOCK_N), tl.float32)
    for start in range(0, K, 16):
        inner = start + tl.arange(0, 16)
        left = tl.load(a + rows[:, None] * K + inner, mask=(rows[:, None] < M) & (inner < K)[None, :], other=0.0)
        right = tl.load(b + inner[:, None] * N + columns, mask=(inner[:, None] < K) & (columns < N)[None, :], other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    tl.store(c + rows[:, None] * N + columns, total, mask=(rows[:, None] < M) & (columns < N)[None, :])


@triton.jit
def transpose(x, out, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :], mask=mask)
    tl.store(out + columns[:, None] * M + rows[None, :], tl.trans(tile), mask=tl.trans(mask))


@triton.jit
def sum_ragged_rows(x, starts, out, BLOCK: tl.constexpr):
    """Each program sums a row of its own length in a loop with bounds of its own."""
    row = tl.program_id(0)
    start, end = tl.load(starts + row), tl.load(starts + row + 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(start, end, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        total += tl.load(x + offsets, mask=offsets < end, other=0.0)
    tl.store(out + row, tl.sum(total, 0))


@triton.jit
def collatz(n, steps):
    """A while loop that every program leaves at another time."""
    program = tl.program_id(0)
    value = tl.load(n + program)
    count = 0
    while value > 1:
        if value % 2 == 1:
            value = 3 * value + 1
        else:
            value = value // 2
            count += 0
        count += 1
    tl.store(steps + program, count)


@triton.jit
def return_early(x, out, limit, BLOCK: tl.constexpr):
    """Programs past the limit return before they touch memory."""
    program = tl.program_id(0)
    if program >= limit:
        return
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets) * 2)


@triton.jit
def choose_branch(x, out, BLOCK: tl.constexpr):
    """Branches that differ by program, nested, one of them with a store of its own."""
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    if program % 2 == 0:
        values = values + 1
        if program % 4 == 0:
            values = values * 10
    else:
        tl.store(x + offsets, values - 1)
        values = -values
    tl.store(out + offsets, values)


@triton.jit(noinline=True)
def clipped_square(x, limit):
    if limit < 0:
        return x
    return tl.minimum(x * x, limit)


@triton.jit
def call_function(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0))
    tl.store(out + offsets, tl.load(x + offsets) + clipped_square(value, value * 2))


@triton.jit
def grid_coordinates(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    width, height = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + (z * height + y) * width + x, x * 10000 + y * 100 + z)


@triton.jit
def shapes(x, out, BLOCK: tl.constexpr):
    """join, split, interleave, reshape, permute and broadcast of one block."""
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * BLOCK + offsets)
    pairs = tl.reshape(values, (BLOCK // 2, 2))
    even, odd = tl.split(pairs)
    joined = tl.join(odd, even)
    flat = tl.reshape(tl.permute(joined, (1, 0)), (BLOCK,))
    woven = tl.interleave(even, odd)
    column = tl.broadcast_to(tl.sum(pairs, 1)[:, None], (BLOCK // 2, 2))
    result = flat + 100 * woven + 10000 * tl.reshape(column, (BLOCK,))
    tl.store(out + tl.program_id(0) * BLOCK + offsets, result)


@triton.jit
def reductions(x, sums, largest, where, every, running, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    program = tl.program_id(0)
    rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    tile = tl.load(x + program * BLOCK_M * BLOCK_N + rows[:, None] * BLOCK_N + columns[None, :])
    tl.store(sums + program * BLOCK_N + columns, tl.sum(tile, 0))
    tl.store(largest + program * BLOCK_M + rows, tl.max(tile, 1))
    tl.store(where + program * BLOCK_M + rows, tl.argmax(tile, 1))
    tl.store(every + program, tl.sum(tl.sum(tile, 0) * 0 + 1, 0))
    place = program * BLOCK_M * BLOCK_N + rows[:, None] * BLOCK_N + columns[None, :]
    tl.store(running + place, tl.cumsum(tile, 1, reverse=True))


@triton.jit
def _linear(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def linear_recurrence(a, b, out, BLOCK: tl.constexpr):
    """h[i] = a[i] h[i − 1] + b[i] by an associative scan over pairs."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    _, state = tl.associative_scan((tl.load(a + offsets), tl.load(b + offsets)), 0, _linear)
    tl.store(out + offsets, state)


@triton.jit
def sum_of_constant(out, BLOCK: tl.constexpr):
    """A reduction of a block that does not vary: n times the value."""
    tl.store(out + tl.program_id(0), tl.sum(tl.full((BLOCK,), 3.0, tl.float32), 0) + tl.program_id(0))


@triton.jit
def count_values(x, counts, order, n, BLOCK: tl.constexpr):
    """Atomics on shared counters; `order` holds what each lane found."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    found = tl.atomic_add(counts + tl.load(x + offsets, mask=mask, other=0), 1, mask=mask)
    tl.store(order + offsets, found, mask=mask)


@triton.jit
def sum_atomically(x, total, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + offsets, mask=offsets < n, other=0.0), 0))


@triton.jit
def update_all(x, low, high, bits_and, bits_or, bits_xor, last, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    lane = tl.arange(0, BLOCK)
    tl.atomic_min(low + lane, values)
    tl.atomic_max(high + lane, values)
    tl.atomic_and(bits_and + lane, values)
    tl.atomic_or(bits_or + lane, values)
    tl.atomic_xor(bits_xor + lane, values)
    tl.atomic_xchg(last + lane, values)


@triton.jit
def add_under_lock(lock, total):
    """A critical section behind a spin lock."""
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    value = tl.load(total)
    tl.store(total, value + tl.program_id(0))
    tl.atomic_xchg(lock, 0)


@triton.jit
def copy_by_descriptor(x, out, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    tile = source.load([row, column])
    target.store([row, column], tile * 2)
    target.atomic_add([row, column], tile)


@triton.jit
def load_masked_without_other(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n))


@triton.jit
def load_through_pointers(addresses, known, out, BLOCK: tl.constexpr):
    """Tensors whose addresses are themselves in memory; `known` is one that the launch has."""
    base = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + offsets, tl.load(base + offsets))


@triton.jit
def assert_positive(x, BLOCK: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    if tl.program_id(0) != 1:
        tl.device_assert(values > 0, "must be positive")


@triton.jit
def print_block(x, BLOCK: tl.constexpr):
    tl.device_print("values", tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))


@triton.jit
def sort_rows(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.sort(tl.load(x + offsets)))


@triton.jit
def random_numbers(out, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.rand(seed, offsets))


@triton.jit
def gather_and_count(x, index, out, counts, BLOCK: tl.constexpr, BINS: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    picked = tl.gather(tl.load(x + offsets), tl.load(index + offsets), 0)
    tl.store(out + offsets, picked)
    tl.store(counts + tl.program_id(0) * BINS + tl.arange(0, BINS), tl.histogram(tl.load(index + offsets), BINS))


@triton.jit
def _clipped_difference(a, b):
    result = b * 2
    if a > b:
        result = a - b
    return result


@triton.jit
def _cross_sum(a0, a1, b0, b1):
    return a0 + b1, a1 + b0


@triton.jit
def map_lanes(x, y, out, pairs, BLOCK: tl.constexpr):
    """A scalar function with a branch, and one of two neighbouring lanes."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left, right = tl.load(x + offsets), tl.load(y + offsets)
    tl.store(out + offsets, tl.map_elementwise(_clipped_difference, left, right))
    (crossed,) = tl.map_elementwise(_cross_sum, left, right, pack=2)
    tl.store(pairs + offsets, crossed)


@triton.jit
def move_rows(x, rows, out, M, N, first, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Rows picked by a descriptor's gather and put back, from column 0, by its scatter."""
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, BLOCK])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [1, BLOCK])
    picked = tl.load(rows + tl.arange(0, COUNT))
    target.scatter(source.gather(picked, first), picked, 0)


@triton.jit
def largest_of_all(x, largest, smallest, BLOCK: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_max(largest, tl.max(values, 0))
    tl.atomic_min(smallest, tl.min(values, 0))


@triton.jit
def dot_of_bytes(a, b, c, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    product = tl.dot(tl.load(a + rows * BLOCK + columns), tl.load(b + rows * BLOCK + columns), out_dtype=tl.int32)
    tl.store(c + rows * BLOCK + columns, product)


@triton.jit
def scaled_dot(a, a_scale, b, b_scale, c, A: tl.constexpr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """One tile with K = 64: scales for 32 elements each, e2m1 packed two to a byte."""
    A_BYTES: tl.constexpr = 32 if A == "e2m1" else 64
    B_BYTES: tl.constexpr = 32 if B == "e2m1" else 64
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    left = tl.load(a + rows[:, None] * A_BYTES + tl.arange(0, A_BYTES)[None, :])
    right = tl.load(b + tl.arange(0, B_BYTES)[:, None] * N + columns[None, :])
    left_scale = tl.load(a_scale + rows[:, None] * 2 + tl.arange(0, 2)[None, :])
    right_scale = tl.load(b_scale + columns[:, None] * 2 + tl.arange(0, 2)[None, :])
    product = tl.dot_scaled(left, left_scale, A, right, right_scale, B)
    tl.store(c + rows[:, None] * N + columns[None, :], product)


@triton.jit
def count_iterations(bounds, out):
    """How often a loop ran and where it stopped, with bounds and steps of each program's own."""
    program = tl.program_id(0)
    count, last = 0, -1
    for i in range(tl.load(bounds + program * 3), tl.load(bounds + program * 3 + 1), tl.load(bounds + program * 3 + 2)):
        count += 1
        last = i
    tl.store(out + program * 2, count)
    tl.store(out + program * 2 + 1, last)


@triton.jit
def store_overlapping(out, program_step, lane_step, BLOCK: tl.constexpr):
    """Neighbouring programs write some of the same elements."""
    lanes = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * program_step + lanes * lane_step, tl.program_id(0) * 100 + lanes)


@triton.jit
def wrap_around(out, wide, negative, factor, BLOCK: tl.constexpr):
    """An int32 sum of a program's part and a lane's part that leaves int32, widened and compared."""
    lanes = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * BLOCK + lanes
    total = tl.program_id(0) * factor + lanes * factor
    tl.store(out + offsets, total)
    tl.store(wide + offsets, total.to(tl.int64))
    tl.store(negative + offsets, (total < 0).to(tl.int32))


@triton.jit
def copy_triangle(x, out, n, BLOCK: tl.constexpr):
    """The lower triangle of a matrix that is smaller than the tile; the rest is −1 within the matrix."""
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (rows < n) & (columns < n)
    tile = tl.load(x + rows * n + columns, mask=inside & (columns <= rows), other=-1.0)
    tl.store(out + rows * n + columns, tile, mask=inside)


@triton.jit
def load_in_branch(x, out, limit, BLOCK: tl.constexpr):
    """Only programs below the limit may read."""
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    values = tl.zeros((BLOCK,), tl.float32)
    if program < limit:
        values = tl.load(x + offsets)
    tl.store(out + offsets, values)


@triton.jit
def load_words(x, out, shift, BLOCK: tl.constexpr):
    """Bytes read as 32-bit words from an address that may lie between two of them."""
    words = (x + shift).to(tl.pointer_type(tl.int32))
    tl.store(out + tl.arange(0, BLOCK), tl.load(words + tl.arange(0, BLOCK)))


@triton.jit
def wait_for_the_next(flags, out, n):
    """Each program waits for the flag that the program after it sets; the last one sets its own first."""
    program = tl.program_id(0)
    if program < n - 1:
        while tl.atomic_add(flags + program + 1, 0) == 0:
            pass
    tl.store(out + program, tl.load(out + program + 1, mask=program < n - 1, other=0) + 1)
    tl.atomic_xchg(flags + program, 1)


@triton.jit
def poll_for_the_next(flags, n):
    """The same wait with volatile loads and a count of the rounds."""
    program = tl.program_id(0)
    rounds = 0
    if program < n - 1:
        while tl.load(flags + program + 1, volatile=True) == 0:
            rounds += 1
    tl.store(flags + program, 1 + rounds * 0)


@triton.jit
def take_work(counter, out, n):
    """Programs take the next index until there is none: dynamic scheduling."""
    index = tl.atomic_add(counter, 1)
    while index < n:
        tl.store(out + index, index * index)
        index = tl.atomic_add(counter, 1)


@triton.jit
def wait_for_each_other(flags):
    """Two locks taken in opposite orders."""
    program = tl.program_id(0)
    while tl.atomic_cas(flags + program, 0, 1) == 1:
        pass
    tl.atomic_add(flags + 2, 1)
    while tl.atomic_add(flags + 2, 0) < 2:
        pass
    while tl.atomic_cas(flags + 1 - program, 0, 1) == 1:
        pass


@triton.jit
def sum_twice_atomically(x, totals, n, BLOCK: tl.constexpr):
    """Two float atomics a program on one element, and one on another tensor's part."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(totals, tl.sum(values, 0))
    tl.atomic_add(totals, tl.sum(values * values, 0))
    tl.atomic_add(totals + 1 + offsets % 3, values)


@triton.jit
def add_then_read(total, out):
    """A float atomic, then a load of what it added to."""
    tl.atomic_add(total, 1.0)
    tl.store(out + tl.program_id(0), tl.load(total))


@triton.jit
def store_everywhere(out, BLOCK: tl.constexpr):
    """Every program stores its id to the same elements: a race, which the last program wins."""
    tl.store(out + tl.arange(0, BLOCK), tl.full((BLOCK,), 0, tl.int32) + tl.program_id(0))


@triton.jit
def fail_in_program(x, out, program, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    tl.store(out + offsets, values)
    tl.device_assert(tl.program_id(0) != program, "told to fail")


@triton.jit
def clamp(x, symmetric, lopsided, BLOCK: tl.constexpr):
    values = tl.load(x + tl.arange(0, BLOCK))
    tl.store(symmetric + tl.arange(0, BLOCK), tl.clamp(values, -2.0, 2.0))
    tl.store(lopsided + tl.arange(0, BLOCK), tl.clamp(values, -2.0, 3.0))


@triton.jit
def choose_among_pointers(x, y, z, out, BLOCK: tl.constexpr):
    """A block of pointers into three tensors, chosen twice."""
    lanes = tl.arange(0, BLOCK)
    first = tl.where(lanes % 3 == 0, x + lanes, y + lanes)
    tl.store(out + lanes, tl.load(tl.where(lanes % 3 == 2, z + lanes, first)))
    tl.store(out + BLOCK + lanes, tl.load(tl.where(lanes % 2 == 0, first, z + lanes)))
