"""Attention of one new token of each sequence over keys and values that are kept in pages.

    s = scale · q · kᵀ over the first `length` tokens of a sequence         o = sum over tokens of softmax(s) · v

Token t of a sequence is row t mod page of page block_table[sequence, t div page]. A program takes the query heads of
one head of the cache together, as the rows of a tile, and a part of a sequence; where sequences and heads are few, one
is shared by many programs, whose (maximum, sum, o) a second small kernel puts together:

    o = sum over parts of 2^(l − m) · o, over the sum of 2^(l − m)          l: of a part, base 2; m: their maximum

Fewest bytes: every cached key and value of a token once, q and o once; the parts' float32 cross memory twice on top.
Flops: 4 · head for each query head and token, far below what memory gives: bound by its bandwidth.
"""

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from tilesight.kernels.attention_arguments import in_autocast, require_decoding
from tilesight.kernels.attention_plan import LOG2_E, LOWEST, DecodePlan, head_block, plan_decode
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, float32_precision, needs_gradient, precision_of
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered


@triton.jit
def decode_parts(
    query_ptr, key_ptr, value_ptr, table_ptr, lengths_ptr, out_ptr, lse_ptr, heads, group, kv_heads, parts, scale, q_b,
    q_h, k_page, k_row, k_h, v_page, v_row, v_h, table_b, table_p, tokens, out_b, out_h, out_part,
    PAGE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr, WIDTH: tl.constexpr,
    HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr, SPLIT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A part of a sequence for BLOCK_M query heads that share a head of the cache.

    Tensors   q [sequences, heads, HEAD], k [pages, PAGE, kv_heads, HEAD], v the same of HEAD_V, table [sequences, …]
              and lengths [sequences] int32; o [sequences, heads, HEAD_V], with SPLIT [parts, sequences, heads, HEAD_V]
              float32 and l [parts, sequences, heads] float32 of base 2, −inf where a part has no token
    """
    tiles = tl.cdiv(group, BLOCK_M)
    part = tl.program_id(0) % parts
    tile = tl.program_id(0) // parts % tiles
    kv_head = tl.program_id(0) // parts // tiles % kv_heads
    sequence = tl.program_id(0) // parts // tiles // kv_heads
    lane = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    head = kv_head * group + lane
    column = tl.arange(0, WIDTH)
    column_v = tl.arange(0, WIDTH_V)
    length = tl.minimum(tl.load(lengths_ptr + sequence), tokens)
    span = tl.cdiv(tl.cdiv(length, parts), BLOCK_N) * BLOCK_N
    begin = part * span
    end = tl.minimum(begin + span, length)
    place = query_ptr + sequence.to(tl.int64) * q_b + head.to(tl.int64)[:, None] * q_h + column[None, :]
    q = tl.load(place, (lane < group)[:, None] & (column < HEAD)[None, :], other=0.0)
    key_ptr += kv_head.to(tl.int64) * k_h
    value_ptr += kv_head.to(tl.int64) * v_h
    table_ptr += sequence.to(tl.int64) * table_b
    acc = tl.zeros((BLOCK_M, WIDTH_V), tl.float32)
    top = tl.full((BLOCK_M,), LOWEST, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for n in range(begin, end, BLOCK_N):
        token = n + tl.arange(0, BLOCK_N)
        is_there = token < end
        page = tl.load(table_ptr + token // PAGE * table_p, is_there, other=0).to(tl.int64)
        row = token % PAGE
        k_place = key_ptr + (page * k_page + row * k_row)[:, None] + column[None, :]
        k = tl.load(k_place, is_there[:, None] & (column < HEAD)[None, :], other=0.0)
        v_place = value_ptr + (page * v_page + row * v_row)[:, None] + column_v[None, :]
        v = tl.load(v_place, is_there[:, None] & (column_v < HEAD_V)[None, :], other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        s = tl.where(is_there[None, :], s, float("-inf"))
        new_top = tl.maximum(top, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - new_top[:, None])
        fading = tl.exp2(top - new_top)
        total = total * fading + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * fading[:, None], input_precision=PRECISION)
        top = new_top
    is_empty = total == 0
    acc = acc / tl.where(is_empty, 1.0, total)[:, None]
    place = out_ptr + sequence.to(tl.int64) * out_b + head.to(tl.int64)[:, None] * out_h + column_v[None, :]
    mask = (lane < group)[:, None] & (column_v < HEAD_V)[None, :]
    if SPLIT:
        tl.store(place + part.to(tl.int64) * out_part, acc, mask)
        lse = tl.where(is_empty, float("-inf"), top + tl.log2(total))
        sequences = tl.num_programs(0) // parts // tiles // kv_heads
        tl.store(lse_ptr + (part.to(tl.int64) * sequences + sequence) * heads + head, lse, lane < group)
    else:
        tl.store(place, acc.to(out_ptr.dtype.element_ty), mask)


@triton.jit
def decode_sums(
    parts_ptr, lse_ptr, out_ptr, rows, parts, PARTS: tl.constexpr, HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr
):
    """o [rows, HEAD_V] of one row's parts [parts, rows, HEAD_V], weighed by 2^l."""
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    column = tl.arange(0, WIDTH_V)
    lse = tl.load(lse_ptr + part.to(tl.int64) * rows + row, part < parts, other=float("-inf"))
    top = tl.maximum(tl.max(lse, 0), LOWEST)
    weight = tl.exp2(lse - top)
    place = parts_ptr + (part.to(tl.int64) * rows + row)[:, None] * HEAD_V + column[None, :]
    some = tl.load(place, (part < parts)[:, None] & (column < HEAD_V)[None, :], other=0.0)
    total = tl.sum(weight, 0)
    out = tl.sum(some * weight[:, None], 0) / tl.where(total == 0, 1.0, total)
    tl.store(out_ptr + row.to(tl.int64) * HEAD_V + column, out.to(out_ptr.dtype.element_ty), column < HEAD_V)


def launch(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """o, in one launch or two."""
    out = output(query, key_cache, value_cache, block_table, lengths, scale)
    if out.numel() == 0:
        return out
    tokens = block_table.shape[1] * key_cache.shape[1]
    group = query.shape[1] // key_cache.shape[2]
    plan = plan_decode(query, value_cache.shape[3], key_cache.shape[2], group, tokens)
    return launch_plan(plan, out, query, key_cache, value_cache, block_table, lengths, scale)


def launch_plan(
    plan: DecodePlan,
    out: torch.Tensor,
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """The launches with a plan of one's own, into a dense tensor."""
    sequences, heads, head = query.shape
    _, page, kv_heads, head_v = value_cache.shape
    group = heads // kv_heads
    tokens = block_table.shape[1] * page
    is_split = plan.parts > 1
    some = query.new_empty((plan.parts, *out.shape), dtype=torch.float32) if is_split else out[None]
    lse = query.new_empty((plan.parts, sequences, heads), dtype=torch.float32) if is_split else out
    programs = sequences * kv_heads * triton.cdiv(group, plan.block_m) * plan.parts
    launcher(decode_parts, (programs,))(
        query, key_cache, value_cache, block_table, lengths, some, lse, heads, group, kv_heads, plan.parts,
        scale * LOG2_E, *query.stride()[:2], *key_cache.stride()[:3], *value_cache.stride()[:3], *block_table.stride(),
        tokens, some.stride(1), some.stride(2), some.stride(0), page, plan.block_m, plan.block_n, head,
        head_block(head), head_v, head_block(head_v), is_split, precision_of(query.dtype), num_warps=plan.num_warps,
        num_stages=plan.num_stages,
    )  # fmt: skip
    if is_split:
        launcher(decode_sums, (sequences * heads,))(
            some, lse, out, sequences * heads, plan.parts, triton.next_power_of_2(plan.parts), head_v,
            head_block(head_v), num_warps=4,
        )  # fmt: skip
    return out


def output(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """What the operator returns, not filled."""
    return query.new_empty((*query.shape[:2], value_cache.shape[3]))


operator = define(
    "decode_attention(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor lengths,"
    " float scale) -> Tensor",
    launch,
    output,
    float32_precision,
)


@partial(remembered, state=float32_precision)
@torch_when_transformed
def decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Attention of one query of each sequence over its cached tokens; without a gradient. torch has no such function.

    A sequence of length 0 gets 0. A page may be in several sequences. On a GPU what the table and the lengths hold is
    not checked, but that a length ends with the sequence's row of the table.

    Args:
        query: [sequences, heads, head] float16, bfloat16 or float32
        key_cache: [pages, tokens of a page, kv heads, head] of the query's dtype; kv heads divide heads
        value_cache: [pages, tokens of a page, kv heads, value head]
        block_table: int32 [sequences, pages of the longest]: which page holds a sequence's next tokens
        lengths: int32 [sequences]: tokens of a sequence that are in the cache, its newest included
        scale: above 0; 1 / √head when None
    Returns: [sequences, heads, value head], of the query's dtype
    Raises:
        IndexError: for a length or a page that is out of range, on the CPU
        RuntimeError: where shapes, dtypes or devices do not fit, or a gradient is wanted
        TypeError: for a dtype that is not supported
        ValueError: for heads of more than `LARGEST_HEAD` elements, or a scale that is not above 0
    """
    query, key_cache, value_cache = in_autocast(query, key_cache, value_cache)
    factor = (query.shape[-1] or 1) ** -0.5 if scale is None else float(scale)
    require_decoding(query, key_cache, value_cache, block_table, lengths, factor)
    if needs_gradient(query, key_cache, value_cache):
        raise RuntimeError("decode_attention has no gradient; call it under torch.no_grad()")
    dense = [each if each.stride(-1) == 1 else each.contiguous() for each in (query, key_cache, value_cache)]
    return operator(*dense, block_table.to(torch.int32), lengths.to(torch.int32).contiguous(), factor)
