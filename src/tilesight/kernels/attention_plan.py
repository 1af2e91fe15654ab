"""How attention is laid over programs, and what its kernels share: tiles of rows, and the keys that a query may see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2_E = 1.4426950408889634
LOWEST = tl.constexpr(-3.0e38)
"""Where a row's maximum starts: below every score but −inf, and finite, so that no −inf is taken from another."""
UNBOUNDED = 1 << 30
"""Keys before or after a query that it may see, where there is no bound."""
LARGE_WORK = 1 << 26
"""Scores from which tensor descriptors are worth the microseconds that making them takes."""
LARGEST_HEAD = 256


@dataclass(frozen=True)
class AttentionPlan:
    """Constants of a launch.

    Args:
        block_m: queries of a tile, a power of two
        block_n: keys of a tile, a power of two
        is_tma: tiles come by tensor descriptors, else by pointers
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    is_tma: bool = False


Plans = dict[int, AttentionPlan]

FORWARD: Plans = {
    16: AttentionPlan(128, 128, 8, 3),
    32: AttentionPlan(128, 128, 8, 3),
    64: AttentionPlan(64, 128, 4, 2),
    128: AttentionPlan(64, 64, 4, 3),
    256: AttentionPlan(128, 64, 8, 2),
}
"""By the width of a head's tile, for 16-bit tensors; 64 and 128 measured on an H200 (4,096 and 16,384 rows)."""
FORWARD_BY_POINTERS = FORWARD | {256: AttentionPlan(64, 64, 8, 2)}
FORWARD_FLOAT32 = {
    16: AttentionPlan(64, 32, 8, 2),
    32: AttentionPlan(64, 32, 8, 2),
    64: AttentionPlan(64, 32, 8, 2),
    128: AttentionPlan(32, 32, 8, 1),
    256: AttentionPlan(16, 32, 8, 1),
}

BY_KEYS = {
    16: AttentionPlan(64, 128, 8, 3),
    32: AttentionPlan(64, 128, 8, 3),
    64: AttentionPlan(64, 128, 8, 3),
    128: AttentionPlan(32, 128, 8, 2),
    256: AttentionPlan(32, 64, 8, 2),
}
"""Of the backward pass over blocks of keys, for 16-bit tensors; larger tiles spill registers when causal."""
BY_KEYS_BY_POINTERS = BY_KEYS | {128: AttentionPlan(16, 128, 8, 2), 256: AttentionPlan(16, 32, 8, 2)}
BY_QUERIES = {
    16: AttentionPlan(128, 64, 8, 3),
    32: AttentionPlan(128, 64, 8, 3),
    64: AttentionPlan(128, 64, 8, 3),
    128: AttentionPlan(128, 64, 8, 2),
    256: AttentionPlan(64, 32, 8, 2),
}
BACKWARD_FLOAT32 = {
    16: AttentionPlan(16, 32, 4, 1),
    32: AttentionPlan(16, 32, 4, 1),
    64: AttentionPlan(16, 32, 4, 1),
    128: AttentionPlan(16, 32, 4, 1),
    256: AttentionPlan(16, 16, 8, 1),
}


def head_block(head: int) -> int:
    """Columns of a tile for heads of that size."""
    return max(16, int(triton.next_power_of_2(head)))


def plan_forward(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, work: int) -> AttentionPlan:
    """The plan of a forward pass.

    Args:
        work: scores that are computed, masked ones included
    """
    return chosen(FORWARD, FORWARD_BY_POINTERS, FORWARD_FLOAT32, work, [query, key, value])


def plan_keys(tensors: list[torch.Tensor], work: int) -> AttentionPlan:
    """The plan of the backward pass over blocks of keys, for query, key, value and the output's gradient."""
    return chosen(BY_KEYS, BY_KEYS_BY_POINTERS, BACKWARD_FLOAT32, work, tensors)


def plan_queries(tensors: list[torch.Tensor], work: int) -> AttentionPlan:
    """The same over blocks of queries."""
    return chosen(BY_QUERIES, BY_QUERIES, BACKWARD_FLOAT32, work, tensors)


def chosen(
    plans: Plans, plans_by_pointers: Plans, plans_float32: Plans, work: int, tensors: list[torch.Tensor]
) -> AttentionPlan:
    """The plan for query, key, value and more, with tensor descriptors where they can be had and there is work enough.

    Products of float32 are computed outside of the tensor cores, in registers, where descriptors only cost some.
    """
    width = head_block(max(tensors[0].shape[-1], tensors[2].shape[-1]))
    if tensors[0].dtype == torch.float32:
        return plans_float32[width]
    if work >= LARGE_WORK and all(takes_descriptor(each) for each in tensors):
        return replace(plans[width], is_tma=True)
    return plans_by_pointers[width]


@dataclass(frozen=True)
class DecodePlan:
    """Constants of a launch over cached tokens.

    Args:
        block_m: query heads of a tile, a power of two from 16
        block_n: tokens of a tile, a power of two
        parts: programs that share a sequence
    """

    block_m: int
    block_n: int
    parts: int
    num_warps: int
    num_stages: int


MOST_PARTS = 64
LEAST_PART = 256
"""Tokens of a part that are worth a program and its share of the second kernel."""


def plan_decode(query: torch.Tensor, value_head: int, kv_heads: int, group: int, tokens: int) -> DecodePlan:
    """The plan for so many tokens at most of each sequence: about four programs a multiprocessor.

    The length of sequences is on the device and not waited for; programs of a short one find their part empty.
    """
    width = head_block(max(query.shape[-1], value_head))
    is_wide = query.dtype.itemsize > 2
    block_m = min(64, max(16, triton.next_power_of_2(group)))
    block_n = max(16, min(64 if is_wide else 128, (4096 if is_wide else 8192) // width))
    processors = torch.cuda.get_device_properties(query.device).multi_processor_count if query.is_cuda else 2
    programs = query.shape[0] * kv_heads * triton.cdiv(group, block_m)
    parts = min(MOST_PARTS, max(1, 4 * processors // max(1, programs)), max(1, tokens // LEAST_PART))
    return DecodePlan(block_m, block_n, parts, 4, 3 if not is_wide else 2)


def takes_descriptor(tensor: torch.Tensor) -> bool:
    """Whether the GPU's tensor memory accelerator can read [batch, heads, rows, head] as it lies."""
    size = tensor.element_size()
    is_aligned = tensor.data_ptr() % 16 == 0 and all(stride * size % 16 == 0 for stride in tensor.stride()[:3])
    is_new = not tensor.is_cuda or torch.cuda.get_device_capability(tensor.device)[0] >= 9
    return is_new and is_aligned and tensor.stride(3) == 1 and 0 not in tensor.stride() and tensor.numel() > 0


def source_of(tensor: torch.Tensor, rows: int, is_tma: bool) -> Any:
    """What a kernel reads tiles of so many rows of [batch, heads, rows, head] from."""
    if not is_tma:
        return tensor
    block = [1, 1, rows, head_block(tensor.shape[-1])]
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)


def dense_last(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its last axis dense: itself, else a copy."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


@triton.jit
def load_rows(
    source, batch, head, first, row, rows, stride_b, stride_h, stride_m, BLOCK: tl.constexpr, HEAD: tl.constexpr,
    WIDTH: tl.constexpr, TMA: tl.constexpr, EDGE: tl.constexpr,
) -> Any:  # fmt: skip
    """BLOCK rows of WIDTH, from `row` of a sequence that begins at `first` and has `rows`; 0 beyond HEAD.

    With EDGE also 0 beyond the sequence; without it all rows must lie inside the tensor, or come by TMA.
    """
    if TMA:
        tile = tl.reshape(source.load([batch, head, first + row, 0]), (BLOCK, WIDTH))
    else:
        lane = tl.arange(0, BLOCK)
        column = tl.arange(0, WIDTH)
        start = batch.to(tl.int64) * stride_b + head.to(tl.int64) * stride_h + (first + row).to(tl.int64) * stride_m
        place = source + start + lane[:, None] * stride_m + column[None, :]
        if EDGE and HEAD < WIDTH:
            tile = tl.load(place, (row + lane < rows)[:, None] & (column < HEAD)[None, :], other=0.0)
        elif EDGE:
            tile = tl.load(place, (row + lane < rows)[:, None], other=0.0)
        elif HEAD < WIDTH:
            tile = tl.load(place, (column < HEAD)[None, :], other=0.0)
        else:
            tile = tl.load(place)
    return tile


@triton.jit
def sequence_of(program, starts_ptr, sequences, BLOCK: tl.constexpr, SEQUENCES: tl.constexpr) -> Any:
    """Which sequence a program works on and which of its blocks: (sequence, block); past the last: `sequences`."""
    lane = tl.arange(0, SEQUENCES)
    begin = tl.load(starts_ptr + lane, lane < sequences, other=0)
    end = tl.load(starts_ptr + lane + 1, lane < sequences, other=0)
    blocks = (end - begin + BLOCK - 1) // BLOCK
    ends = tl.cumsum(blocks, 0)
    sequence = tl.sum(((ends <= program) & (lane < sequences)).to(tl.int32), 0)
    block = program - tl.sum(tl.where(lane < sequence, blocks, 0), 0)
    return sequence, block


@triton.jit
def rows_of(starts_ptr, sequence, sequences, rows) -> Any:
    """(first row, number of rows) of a sequence, inside a tensor of so many rows; none past the last sequence."""
    first = tl.load(starts_ptr + sequence, sequence < sequences, other=0)
    end = tl.load(starts_ptr + sequence + 1, sequence < sequences, other=0)
    first = tl.minimum(tl.maximum(first, 0), rows)
    return first, tl.maximum(tl.minimum(end, rows) - first, 0)


@triton.jit
def key_bounds(
    start, queries, keys, left, right, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, LEFT: tl.constexpr,
    RIGHT: tl.constexpr, MASKED: tl.constexpr,
) -> Any:  # fmt: skip
    """The keys that a block of queries from `start` goes through: multiples of BLOCK_N, but for the last.

    Returns: (begin, whole, tail, end): all queries see all keys from `whole` to before `tail`; with MASKED there are
        none such
    """
    begin = 0
    end = keys
    if RIGHT:
        end = tl.minimum(end, tl.minimum(start + BLOCK_M, queries) + right)
    if LEFT:
        begin = tl.maximum(start - left, 0) // BLOCK_N * BLOCK_N
    whole = begin
    tail = begin
    if not MASKED:
        if LEFT:
            whole = tl.maximum(start + BLOCK_M - 1 - left + BLOCK_N - 1, 0) // BLOCK_N * BLOCK_N
            whole = tl.minimum(tl.maximum(whole, begin), tl.maximum(tl.cdiv(end, BLOCK_N) * BLOCK_N, begin))
        tail = keys
        if RIGHT:
            tail = tl.maximum(tl.minimum(tail, start + right + 1), 0)
        tail = tl.maximum(tail // BLOCK_N * BLOCK_N, whole)
    return begin, whole, tail, end
