"""Attention whose scores are never stored: softmax(scale · query · keyᵀ) · value.

    s = scale · q · kᵀ, −inf where a query may not see a key         l = log(sum over keys of exp(s))
    o = sum over keys of exp(s − l) · v

A program keeps a block of queries and goes through the keys: their maximum so far, the sum of exp(s − maximum), and the
sum of exp(s − maximum) · v in registers, the last two multiplied by exp(old − new) where the maximum grows. exp is 2 to
the power of s · log2(e), whose factor is one with the scale. Blocks of keys that every query of the block sees are gone
through without masks; those that none sees are not read. The backward pass is in `attention_backward`.

Fewest bytes: q, k and v once, o and l once. Flops: 4 · head for each score that is not masked. Products take the
tensors' dtype and are summed in float32; exp(s − maximum) is rounded to that dtype between them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.attention_arguments import (
    expanded_mask,
    four_axes,
    in_autocast,
    require_attention,
    require_starts,
    window_bounds,
)
from tilesight.kernels.attention_backward import operator as backward_operator
from tilesight.kernels.attention_plan import (
    LOG2_E,
    LOWEST,
    UNBOUNDED,
    AttentionPlan,
    dense_last,
    head_block,
    key_bounds,
    load_rows,
    plan_forward,
    rows_of,
    sequence_of,
    source_of,
)
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, float32_precision, needs_gradient, precision_of
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered


@triton.jit
def over_keys(
    acc, top, total, q, key, value, bias_ptr, batch, head, kv_head, m, m_rows, k_first, keys, begin, end, scale, left,
    right, k_b, k_h, k_n, v_b, v_h, v_n, bias_b, bias_h, bias_m, bias_n, BLOCK_N: tl.constexpr, HEAD: tl.constexpr,
    WIDTH: tl.constexpr, HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    BIAS: tl.constexpr, TMA: tl.constexpr, EDGE: tl.constexpr, PACKED: tl.constexpr, PRECISION: tl.constexpr,
) -> Any:  # fmt: skip
    """A block's queries through the keys from `begin` to before `end`; with EDGE some of them may not be seen.

    Returns: acc [queries, WIDTH_V], top and total [queries], of base 2
    """
    for n in range(begin, end, BLOCK_N):
        k = load_rows(key, batch, kv_head, k_first, n, keys, k_b, k_h, k_n, BLOCK_N, HEAD, WIDTH, TMA, EDGE)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        if BIAS > 0:
            s *= scale
        if EDGE:
            column = n + tl.arange(0, BLOCK_N)[None, :]
            seen = column < keys
            if RIGHT:
                seen &= column <= m[:, None] + right
            if LEFT:
                seen &= column >= m[:, None] - left
            if BIAS > 0:
                place = bias_ptr + batch.to(tl.int64) * bias_b + head.to(tl.int64) * bias_h
                place += m.to(tl.int64)[:, None] * bias_m + column.to(tl.int64) * bias_n
                bias = tl.load(place, (m < m_rows)[:, None] & (column < keys), other=0)
                if BIAS == 1:
                    seen &= bias != 0
                else:
                    s += bias.to(tl.float32) * 1.4426950408889634
            s = tl.where(seen, s, float("-inf"))
        if BIAS > 0:
            new_top = tl.maximum(top, tl.max(s, 1))
            p = tl.exp2(s - new_top[:, None])
        else:
            new_top = tl.maximum(top, tl.max(s, 1) * scale)
            p = tl.exp2(s * scale - new_top[:, None])
        fading = tl.exp2(top - new_top)
        total = total * fading + tl.sum(p, 1)
        acc = acc * fading[:, None]
        v = load_rows(value, batch, kv_head, k_first, n, keys, v_b, v_h, v_n, BLOCK_N, HEAD_V, WIDTH_V, TMA, EDGE)
        if EDGE and TMA and PACKED:
            v = tl.where((n + tl.arange(0, BLOCK_N) < keys)[:, None], v, 0.0)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision=PRECISION)
        top = new_top
    return acc, top, total


@triton.jit
def attention_forward(
    query, key, value, out_ptr, lse_ptr, bias_ptr, q_starts_ptr, k_starts_ptr, blocks, heads, group, queries, keys,
    sequences, scale, left, right, q_b, q_h, q_m, k_b, k_h, k_n, v_b, v_h, v_n, out_b, out_h, out_m, bias_b, bias_h,
    bias_m, bias_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr, WIDTH: tl.constexpr,
    HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, BIAS: tl.constexpr,
    EDGES: tl.constexpr, SEQUENCES: tl.constexpr, TMA: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of queries of one head. With RIGHT the blocks that see most keys come first.

    Tensors   q [batch, heads, queries, HEAD], k [batch, heads / group, keys, HEAD], v the same of HEAD_V, o as q of
              HEAD_V; l [batch, heads, queries] float32, of base 2, +inf where no key is seen. With SEQUENCES batch is 1
              and the rows of sequence i are those from starts[i] to before starts[i + 1]
    Sees      query i the keys from i − left (with LEFT) to i + right (with RIGHT), where bias is true (BIAS 1), and
              bias is added to s (BIAS 2)
    """
    rows_total = queries
    block = tl.program_id(0) % blocks
    batch = tl.program_id(0) // blocks // heads
    head = tl.program_id(0) // blocks % heads
    q_first = 0
    k_first = 0
    if SEQUENCES > 0:
        sequence, block = sequence_of(block, q_starts_ptr, sequences, BLOCK_M, SEQUENCES)  # pyright: ignore[reportGeneralTypeIssues]
        q_first, queries = rows_of(q_starts_ptr, sequence, sequences, queries)
        k_first, keys = rows_of(k_starts_ptr, sequence, sequences, keys)
    if RIGHT:
        block = tl.maximum(tl.cdiv(queries, BLOCK_M) - 1 - block, 0)
    kv_head = head // group
    start = block * BLOCK_M
    m = start + tl.arange(0, BLOCK_M)
    q = load_rows(query, batch, head, q_first, start, queries, q_b, q_h, q_m, BLOCK_M, HEAD, WIDTH, TMA, True)
    acc = tl.zeros((BLOCK_M, WIDTH_V), tl.float32)
    top = tl.full((BLOCK_M,), LOWEST, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    begin, whole, tail, end = key_bounds(start, queries, keys, left, right, BLOCK_M, BLOCK_N, LEFT, RIGHT, BIAS > 0)
    if LEFT:
        acc, top, total = over_keys(
            acc, top, total, q, key, value, bias_ptr, batch, head, kv_head, m, queries, k_first, keys, begin, whole,
            scale, left, right, k_b, k_h, k_n, v_b, v_h, v_n, bias_b, bias_h, bias_m, bias_n, BLOCK_N, HEAD, WIDTH,
            HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, True, SEQUENCES > 0, PRECISION,
        )  # fmt: skip
    if BIAS == 0:
        acc, top, total = over_keys(
            acc, top, total, q, key, value, bias_ptr, batch, head, kv_head, m, queries, k_first, keys, whole, tail,
            scale, left, right, k_b, k_h, k_n, v_b, v_h, v_n, bias_b, bias_h, bias_m, bias_n, BLOCK_N, HEAD, WIDTH,
            HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, False, SEQUENCES > 0, PRECISION,
        )  # fmt: skip
    if EDGES:
        acc, top, total = over_keys(
            acc, top, total, q, key, value, bias_ptr, batch, head, kv_head, m, queries, k_first, keys, tail, end,
            scale, left, right, k_b, k_h, k_n, v_b, v_h, v_n, bias_b, bias_h, bias_m, bias_n, BLOCK_N, HEAD, WIDTH,
            HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, True, SEQUENCES > 0, PRECISION,
        )  # fmt: skip
    column = tl.arange(0, WIDTH_V)
    place = out_ptr + batch.to(tl.int64) * out_b + head.to(tl.int64) * out_h
    place += (q_first + m).to(tl.int64)[:, None] * out_m + column[None, :]
    is_empty = total == 0
    out = acc / tl.where(is_empty, 1.0, total)[:, None]
    tl.store(place, out.to(out_ptr.dtype.element_ty), (m < queries)[:, None] & (column < HEAD_V)[None, :])
    lse = tl.where(is_empty, float("inf"), top + tl.log2(total))
    tl.store(lse_ptr + (batch * heads + head).to(tl.int64) * rows_total + q_first + m, lse, m < queries)


def launch(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    q_starts: torch.Tensor | None,
    k_starts: torch.Tensor | None,
    scale: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, l of base 2), in one launch.

    Args:
        query, key, value: [batch, heads, rows, head]
        bias: expanded to [batch, heads, queries, keys]
        q_starts, k_starts: int32, as cu_seqlens of `attention`
        scale: above 0
        left, right: keys before and after a query that it may see; UNBOUNDED: all
    """
    out, lse = outputs(query, key, value, bias, q_starts, k_starts, scale, left, right)
    batch, heads, queries, _ = query.shape
    if out.numel() == 0:
        return out, lse
    plan = plan_forward(query, key, value, batch * heads * queries * key.shape[2])
    return launch_plan(plan, out, lse, query, key, value, bias, q_starts, k_starts, scale, left, right)


def launch_plan(
    plan: AttentionPlan,
    out: torch.Tensor,
    lse: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    q_starts: torch.Tensor | None,
    k_starts: torch.Tensor | None,
    scale: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The launch with a plan of one's own, into tensors that `outputs` made."""
    query, key, value = (dense_last(each) for each in (query, key, value))
    batch, heads, queries, head = query.shape
    keys = key.shape[2]
    sequences = 0 if q_starts is None else q_starts.numel() - 1
    blocks = triton.cdiv(queries, plan.block_m) + sequences
    width, width_v = head_block(head), head_block(value.shape[3])
    has_left, has_right = left < UNBOUNDED, right < UNBOUNDED
    kind = 0 if bias is None else 1 if bias.dtype == torch.bool else 2
    shape = 0 if q_starts is None else triton.next_power_of_2(max(1, sequences))
    edges = has_left or has_right or kind > 0 or shape > 0 or keys % plan.block_n != 0
    launcher(attention_forward, (blocks * batch * heads,))(
        source_of(query, plan.block_m, plan.is_tma), source_of(key, plan.block_n, plan.is_tma),
        source_of(value, plan.block_n, plan.is_tma), out, lse, query if bias is None else bias, q_starts, k_starts,
        blocks, heads, heads // key.shape[1], queries, keys, sequences, scale * LOG2_E, left, right,
        *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *out.stride()[:3],
        *((0, 0, 0, 0) if bias is None else bias.stride()), plan.block_m, plan.block_n, head, width, value.shape[3],
        width_v, has_left, has_right, kind, edges, shape, plan.is_tma, precision_of(query.dtype),
        num_warps=plan.num_warps, num_stages=plan.num_stages,
    )  # fmt: skip
    return out, lse


def outputs(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    q_starts: torch.Tensor | None,
    k_starts: torch.Tensor | None,
    scale: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the operator returns, not filled but where rows may belong to no sequence; o lies as the query does."""
    shape = (*query.shape[:3], value.shape[3])
    out = torch.empty_like(query) if query.shape == shape else query.new_empty(shape)
    out = out if out.stride(-1) == 1 else query.new_empty(shape)
    lse = query.new_empty(query.shape[:3], dtype=torch.float32)
    return (out, lse) if q_starts is None else (out.zero_(), lse.fill_(float("inf")))


operator = define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor? q_starts, Tensor? k_starts, float scale,"
    " int left, int right) -> (Tensor, Tensor)",
    launch,
    outputs,
    float32_precision,
)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> torch.Tensor:
        out, lse = operator(*args)
        ctx.save_for_backward(*args[:3], out, lse, *args[3:6])
        ctx.numbers = args[6:]
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        grads = backward_operator(grad_outputs[0], *ctx.saved_tensors, *ctx.numbers)
        return (*grads, *(None,) * 6)


@partial(remembered, state=float32_precision)
@torch_when_transformed
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    window: tuple[int, int] | None = None,
    cu_seqlens: torch.Tensor | None = None,
    cu_seqlens_key: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale · query · keyᵀ) · value, as `torch.nn.functional.scaled_dot_product_attention`; with gradients.

    A query that sees no key gets 0, as in torch. What a query does not see is multiplied by 0 or not read: NaN and
    infinity there may or may not show.

    Args:
        query: [..., heads, queries, head] float16, bfloat16 or float32; two axes at least
        key: [..., heads, keys, head] of the query's dtype
        value: [..., heads, keys, value head]
        attn_mask: true where a query sees a key, or what is added to the scores, of the query's dtype or float32;
            broadcasts to [..., heads, queries, keys]; has no gradient
        dropout_p: of torch's signature, 0 only
        is_causal: query i sees the keys up to i, counted from the first of both
        scale: 1 / √head when None
        enable_gqa: key and value may have fewer heads, each for as many neighbouring ones of the query
        window: query i sees the keys from i − window[0] to i + window[1]; −1: no bound
        cu_seqlens: int32 [sequences + 1]: query, key and value are [1, heads, length, head] of sequences one behind
            another, sequence i from cu_seqlens[i] to before cu_seqlens[i + 1]; each sees its own keys alone. Rows of no
            sequence get 0
        cu_seqlens_key: the same of key and value; as cu_seqlens when None
    Returns: [..., heads, queries, value head], of the query's dtype
    Raises:
        RuntimeError: where shapes, dtypes or devices do not fit, or what is asked for is not supported
        TypeError: for a dtype that is not supported
        ValueError: for heads of more than `LARGEST_HEAD` elements, or a window or cu_seqlens that is none
    """
    query, key, value = in_autocast(query, key, value)
    require_attention(query, key, value, enable_gqa)
    if dropout_p != 0:
        raise RuntimeError(f"attention does not support dropout_p, got {dropout_p}")
    shape = (*query.shape[:-1], value.shape[-1])
    q, k, v = (four_axes(each) for each in (query, key, value))
    left, right = window_bounds(window, is_causal)
    bias = None if attn_mask is None else expanded_mask(attn_mask, query, key)
    starts = require_starts(cu_seqlens, cu_seqlens_key, q, k, bias)
    factor = query.shape[-1] ** -0.5 if scale is None and query.shape[-1] else 1.0 if scale is None else float(scale)
    if factor <= 0:
        q, factor = q * (-1 if factor < 0 else 0), -factor or 1.0
    if needs_gradient(q, k, v):
        return _Attention.apply(q, k, v, bias, *starts, factor, left, right).reshape(shape)
    return operator(q, k, v, bias, *starts, factor, left, right)[0].reshape(shape)
