"""The gradients of attention, in two kernels that each write a result once: no atomics, the same bits every time.

    p = exp(s − l)          dv = pᵀ · do          dp = do · vᵀ          d = sum over the head of do · o
    ds = p · (dp − d)       dk = scale · dsᵀ · q  dq = scale · ds · k

Scores are computed again: in one kernel by blocks of keys, which go through the queries (and the heads) that see them
and keep dk and dv in registers, in the other by blocks of queries, which go through the keys and keep dq. Seven
products where atomic additions of dq would need five. p and ds are rounded to the tensors' dtype.

Fewest bytes: q, k, v, o, do and l once, dq, dk and dv once. Flops: 14 · head for each score that is not masked.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.attention_plan import (
    LOG2_E,
    UNBOUNDED,
    AttentionPlan,
    dense_last,
    head_block,
    key_bounds,
    load_rows,
    plan_keys,
    plan_queries,
    rows_of,
    sequence_of,
    source_of,
)
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, float32_precision, precision_of

DELTA_ROWS = 64


@triton.jit
def attention_delta(
    out, grad, delta_ptr, blocks, heads, queries, out_b, out_h, out_m, grad_b, grad_h, grad_m, BLOCK_M: tl.constexpr,
    HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr,
):  # fmt: skip
    """d [batch, heads, queries] float32 = sum over the head of o · do."""
    line = tl.program_id(0) // blocks
    start = tl.program_id(0) % blocks * BLOCK_M
    batch = line // heads
    head = line % heads
    m = start + tl.arange(0, BLOCK_M)
    o = load_rows(out, batch, head, 0, start, queries, out_b, out_h, out_m, BLOCK_M, HEAD_V, WIDTH_V, False, True)
    do = load_rows(grad, batch, head, 0, start, queries, grad_b, grad_h, grad_m, BLOCK_M, HEAD_V, WIDTH_V, False, True)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    tl.store(delta_ptr + line.to(tl.int64) * queries + m, delta, m < queries)


@triton.jit
def seen_scores(
    p, m, n, queries, keys, bias_ptr, batch, head, left, right, bias_b, bias_h, bias_m, bias_n, LEFT: tl.constexpr,
    RIGHT: tl.constexpr, BIAS: tl.constexpr,
) -> Any:  # fmt: skip
    """p where queries m see keys n, else 0; m and n as columns and rows of it, or the other way round."""
    seen = (m < queries) & (n < keys)
    if RIGHT:
        seen &= n <= m + right
    if LEFT:
        seen &= n >= m - left
    if BIAS == 1:
        place = bias_ptr + batch.to(tl.int64) * bias_b + head.to(tl.int64) * bias_h
        place += m.to(tl.int64) * bias_m + n.to(tl.int64) * bias_n
        seen &= tl.load(place, (m < queries) & (n < keys), other=0) != 0
    return tl.where(seen, p, 0.0)


@triton.jit
def added_bias(m, n, queries, keys, bias_ptr, batch, head, bias_b, bias_h, bias_m, bias_n) -> Any:
    """What is added to the scores of base 2."""
    place = bias_ptr + batch.to(tl.int64) * bias_b + head.to(tl.int64) * bias_h
    place += m.to(tl.int64) * bias_m + n.to(tl.int64) * bias_n
    return tl.load(place, (m < queries) & (n < keys), other=0.0).to(tl.float32) * 1.4426950408889634


@triton.jit
def over_queries(
    dk, dv, k, v, query, grad, lse_ptr, delta_ptr, bias_ptr, batch, head, n, q_first, queries, keys, begin, end, scale,
    left, right, q_b, q_h, q_m, grad_b, grad_h, grad_m, bias_b, bias_h, bias_m, bias_n, BLOCK_M: tl.constexpr,
    HEAD: tl.constexpr, WIDTH: tl.constexpr, HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr, LEFT: tl.constexpr,
    RIGHT: tl.constexpr, BIAS: tl.constexpr, TMA: tl.constexpr, EDGE: tl.constexpr, PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
) -> Any:  # fmt: skip
    """A block's keys through the queries from `begin` to before `end`: dk and dv of them added."""
    for row in range(begin, end, BLOCK_M):
        m = row + tl.arange(0, BLOCK_M)
        q = load_rows(query, batch, head, q_first, row, queries, q_b, q_h, q_m, BLOCK_M, HEAD, WIDTH, TMA, EDGE)
        do = load_rows(
            grad, batch, head, q_first, row, queries, grad_b, grad_h, grad_m, BLOCK_M, HEAD_V, WIDTH_V, TMA, EDGE
        )
        if EDGE:
            lse = tl.load(lse_ptr + m, m < queries, other=float("inf"))
            delta = tl.load(delta_ptr + m, m < queries, other=0.0)
            if TMA and PACKED:
                q = tl.where((m < queries)[:, None], q, 0.0)
                do = tl.where((m < queries)[:, None], do, 0.0)
        else:
            lse = tl.load(lse_ptr + m)
            delta = tl.load(delta_ptr + m)
        s = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale - lse[None, :]
        if BIAS == 2:
            s += added_bias(
                m[None, :], n[:, None], queries, keys, bias_ptr, batch, head, bias_b, bias_h, bias_m, bias_n
            )
        p = tl.exp2(s)
        if EDGE:
            p = seen_scores(
                p, m[None, :], n[:, None], queries, keys, bias_ptr, batch, head, left, right, bias_b, bias_h, bias_m,
                bias_n, LEFT, RIGHT, BIAS,
            )  # fmt: skip
        dv = tl.dot(p.to(do.dtype), do, dv, input_precision=PRECISION)
        dp = tl.dot(v, tl.trans(do), input_precision=PRECISION)
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit
def attention_backward_keys(
    query, key, value, grad, lse_ptr, delta_ptr, dk_ptr, dv_ptr, bias_ptr, q_starts_ptr, k_starts_ptr, blocks, heads,
    group, queries, keys, sequences, scale, factor, left, right, q_b, q_h, q_m, k_b, k_h, k_n, v_b, v_h, v_n, grad_b,
    grad_h, grad_m, dk_b, dk_h, dk_n, dv_b, dv_h, dv_n, bias_b, bias_h, bias_m, bias_n, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, HEAD: tl.constexpr, WIDTH: tl.constexpr, HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, BIAS: tl.constexpr, EDGES: tl.constexpr, SEQUENCES: tl.constexpr,
    TMA: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dk and dv of a block of keys of one head. Arguments as `attention.attention_forward`; factor: of dk, base e.

    With RIGHT, the causal case, the first keys are seen by most queries and come first.
    """
    rows_total = queries
    block = tl.program_id(0) % blocks
    kv_heads = heads // group
    batch = tl.program_id(0) // blocks // kv_heads
    kv_head = tl.program_id(0) // blocks % kv_heads
    q_first = 0
    k_first = 0
    if SEQUENCES > 0:
        sequence, block = sequence_of(block, k_starts_ptr, sequences, BLOCK_N, SEQUENCES)  # pyright: ignore[reportGeneralTypeIssues]
        q_first, queries = rows_of(q_starts_ptr, sequence, sequences, queries)
        k_first, keys = rows_of(k_starts_ptr, sequence, sequences, keys)
    start = block * BLOCK_N
    n = start + tl.arange(0, BLOCK_N)
    k = load_rows(key, batch, kv_head, k_first, start, keys, k_b, k_h, k_n, BLOCK_N, HEAD, WIDTH, TMA, True)
    v = load_rows(value, batch, kv_head, k_first, start, keys, v_b, v_h, v_n, BLOCK_N, HEAD_V, WIDTH_V, TMA, True)
    dk = tl.zeros((BLOCK_N, WIDTH), tl.float32)
    dv = tl.zeros((BLOCK_N, WIDTH_V), tl.float32)
    begin, whole, tail, end = key_bounds(start, keys, queries, right, left, BLOCK_N, BLOCK_M, RIGHT, LEFT, BIAS > 0)
    for head in range(kv_head * group, kv_head * group + group):
        row = (batch * heads + head).to(tl.int64) * rows_total + q_first  # pyright: ignore[reportAttributeAccessIssue]
        if RIGHT:
            dk, dv = over_queries(
                dk, dv, k, v, query, grad, lse_ptr + row, delta_ptr + row, bias_ptr, batch, head, n, q_first, queries,
                keys, begin, tl.minimum(whole, end), scale, left, right, q_b, q_h, q_m, grad_b, grad_h, grad_m, bias_b,
                bias_h, bias_m, bias_n, BLOCK_M, HEAD, WIDTH, HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, True,
                SEQUENCES > 0, PRECISION,
            )  # fmt: skip
        if BIAS == 0:
            dk, dv = over_queries(
                dk, dv, k, v, query, grad, lse_ptr + row, delta_ptr + row, bias_ptr, batch, head, n, q_first, queries,
                keys, whole, tail, scale, left, right, q_b, q_h, q_m, grad_b, grad_h, grad_m, bias_b, bias_h, bias_m,
                bias_n, BLOCK_M, HEAD, WIDTH, HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, False, SEQUENCES > 0, PRECISION,
            )  # fmt: skip
        if EDGES:
            dk, dv = over_queries(
                dk, dv, k, v, query, grad, lse_ptr + row, delta_ptr + row, bias_ptr, batch, head, n, q_first, queries,
                keys, tail, end, scale, left, right, q_b, q_h, q_m, grad_b, grad_h, grad_m, bias_b, bias_h, bias_m,
                bias_n, BLOCK_M, HEAD, WIDTH, HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, True, SEQUENCES > 0, PRECISION,
            )  # fmt: skip
    column = tl.arange(0, WIDTH)
    place = dk_ptr + batch.to(tl.int64) * dk_b + kv_head.to(tl.int64) * dk_h
    place += (k_first + n).to(tl.int64)[:, None] * dk_n + column[None, :]
    tl.store(place, (dk * factor).to(dk_ptr.dtype.element_ty), (n < keys)[:, None] & (column < HEAD)[None, :])
    column = tl.arange(0, WIDTH_V)
    place = dv_ptr + batch.to(tl.int64) * dv_b + kv_head.to(tl.int64) * dv_h
    place += (k_first + n).to(tl.int64)[:, None] * dv_n + column[None, :]
    tl.store(place, dv.to(dv_ptr.dtype.element_ty), (n < keys)[:, None] & (column < HEAD_V)[None, :])


@triton.jit
def again_over_keys(
    dq, q, do, lse, delta, key, value, bias_ptr, batch, head, kv_head, m, queries, k_first, keys, begin, end, scale,
    left, right, k_b, k_h, k_n, v_b, v_h, v_n, bias_b, bias_h, bias_m, bias_n, BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr, WIDTH: tl.constexpr, HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr, LEFT: tl.constexpr,
    RIGHT: tl.constexpr, BIAS: tl.constexpr, TMA: tl.constexpr, EDGE: tl.constexpr, PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
) -> Any:  # fmt: skip
    """A block's queries through the keys from `begin` to before `end`: dq of them added."""
    for row in range(begin, end, BLOCK_N):
        n = row + tl.arange(0, BLOCK_N)
        k = load_rows(key, batch, kv_head, k_first, row, keys, k_b, k_h, k_n, BLOCK_N, HEAD, WIDTH, TMA, EDGE)
        v = load_rows(value, batch, kv_head, k_first, row, keys, v_b, v_h, v_n, BLOCK_N, HEAD_V, WIDTH_V, TMA, EDGE)
        if EDGE and TMA and PACKED:
            k = tl.where((n < keys)[:, None], k, 0.0)
            v = tl.where((n < keys)[:, None], v, 0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale - lse[:, None]
        if BIAS == 2:
            s += added_bias(
                m[:, None], n[None, :], queries, keys, bias_ptr, batch, head, bias_b, bias_h, bias_m, bias_n
            )
        p = tl.exp2(s)
        if EDGE:
            p = seen_scores(
                p, m[:, None], n[None, :], queries, keys, bias_ptr, batch, head, left, right, bias_b, bias_h, bias_m,
                bias_n, LEFT, RIGHT, BIAS,
            )  # fmt: skip
        dp = tl.dot(do, tl.trans(v), input_precision=PRECISION)
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision=PRECISION)
    return dq


@triton.jit
def attention_backward_queries(
    query, key, value, grad, lse_ptr, delta_ptr, dq_ptr, bias_ptr, q_starts_ptr, k_starts_ptr, blocks, heads, group,
    queries, keys, sequences, scale, factor, left, right, q_b, q_h, q_m, k_b, k_h, k_n, v_b, v_h, v_n, grad_b, grad_h,
    grad_m, dq_b, dq_h, dq_m, bias_b, bias_h, bias_m, bias_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr, WIDTH: tl.constexpr, HEAD_V: tl.constexpr, WIDTH_V: tl.constexpr, LEFT: tl.constexpr,
    RIGHT: tl.constexpr, BIAS: tl.constexpr, EDGES: tl.constexpr, SEQUENCES: tl.constexpr, TMA: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """dq of a block of queries of one head. Arguments as `attention_backward_keys`; factor: of dq."""
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
    row = (batch * heads + head).to(tl.int64) * rows_total + q_first
    q = load_rows(query, batch, head, q_first, start, queries, q_b, q_h, q_m, BLOCK_M, HEAD, WIDTH, TMA, True)
    do = load_rows(
        grad, batch, head, q_first, start, queries, grad_b, grad_h, grad_m, BLOCK_M, HEAD_V, WIDTH_V, TMA, True
    )
    lse = tl.load(lse_ptr + row + m, m < queries, other=float("inf"))
    delta = tl.load(delta_ptr + row + m, m < queries, other=0.0)
    dq = tl.zeros((BLOCK_M, WIDTH), tl.float32)
    begin, whole, tail, end = key_bounds(start, queries, keys, left, right, BLOCK_M, BLOCK_N, LEFT, RIGHT, BIAS > 0)
    if LEFT:
        dq = again_over_keys(
            dq, q, do, lse, delta, key, value, bias_ptr, batch, head, kv_head, m, queries, k_first, keys, begin,
            tl.minimum(whole, end), scale, left, right, k_b, k_h, k_n, v_b, v_h, v_n, bias_b, bias_h, bias_m, bias_n,
            BLOCK_N, HEAD, WIDTH, HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, True, SEQUENCES > 0, PRECISION,
        )  # fmt: skip
    if BIAS == 0:
        dq = again_over_keys(
            dq, q, do, lse, delta, key, value, bias_ptr, batch, head, kv_head, m, queries, k_first, keys, whole, tail,
            scale, left, right, k_b, k_h, k_n, v_b, v_h, v_n, bias_b, bias_h, bias_m, bias_n, BLOCK_N, HEAD, WIDTH,
            HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, False, SEQUENCES > 0, PRECISION,
        )  # fmt: skip
    if EDGES:
        dq = again_over_keys(
            dq, q, do, lse, delta, key, value, bias_ptr, batch, head, kv_head, m, queries, k_first, keys, tail, end,
            scale, left, right, k_b, k_h, k_n, v_b, v_h, v_n, bias_b, bias_h, bias_m, bias_n, BLOCK_N, HEAD, WIDTH,
            HEAD_V, WIDTH_V, LEFT, RIGHT, BIAS, TMA, True, SEQUENCES > 0, PRECISION,
        )  # fmt: skip
    column = tl.arange(0, WIDTH)
    place = dq_ptr + batch.to(tl.int64) * dq_b + head.to(tl.int64) * dq_h
    place += (q_first + m).to(tl.int64)[:, None] * dq_m + column[None, :]
    tl.store(place, (dq * factor).to(dq_ptr.dtype.element_ty), (m < queries)[:, None] & (column < HEAD)[None, :])


def launch(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    bias: torch.Tensor | None,
    q_starts: torch.Tensor | None,
    k_starts: torch.Tensor | None,
    scale: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(dq, dk, dv), in three launches; arguments as `attention.launch`."""
    grads = gradients(grad, query, key, value, out, lse, bias, q_starts, k_starts, scale, left, right)
    tensors = [dense_last(each) for each in (query, key, value, grad)]
    work = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
    delta = delta_of(dense_last(out), tensors[3])
    given = (*tensors, lse, delta, bias, q_starts, k_starts, scale, left, right)
    if grads[0].numel():
        launch_queries(plan_queries(tensors, work), grads[0], *given)
    if grads[1].numel() or grads[2].numel():
        launch_keys(plan_keys(tensors, work), grads[1], grads[2], *given)
    return grads


def gradients(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    bias: torch.Tensor | None,
    q_starts: torch.Tensor | None,
    k_starts: torch.Tensor | None,
    scale: float,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the operator returns, dense, not filled but where rows may belong to no sequence."""
    found = [torch.empty_like(each, memory_format=torch.contiguous_format) for each in (query, key, value)]
    dq, dk, dv = found if q_starts is None else [each.zero_() for each in found]
    return dq, dk, dv


def delta_of(out: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """d [batch, heads, queries] float32, in one launch."""
    batch, heads, queries, head = out.shape
    delta = out.new_empty(out.shape[:3], dtype=torch.float32)
    if delta.numel():
        blocks = triton.cdiv(queries, DELTA_ROWS)
        launcher(attention_delta, (blocks * batch * heads,))(
            out, grad, delta, blocks, heads, queries, *out.stride()[:3], *grad.stride()[:3], DELTA_ROWS, head,
            head_block(head), num_warps=4,
        )  # fmt: skip
    return delta


def launch_queries(plan: AttentionPlan, dq: torch.Tensor, *given: Any) -> None:
    """dq, with a plan; given: as `numbers_of`."""
    query, key, value, grad, lse, delta, bias, q_starts, k_starts, *_ = given
    batch, heads, queries, _ = query.shape
    blocks = triton.cdiv(queries, plan.block_m) + (0 if q_starts is None else q_starts.numel() - 1)
    edges = key.shape[2] % plan.block_n != 0 or given[-1] < UNBOUNDED
    launcher(attention_backward_queries, (blocks * batch * heads,))(
        source_of(query, plan.block_m, plan.is_tma), source_of(key, plan.block_n, plan.is_tma),
        source_of(value, plan.block_n, plan.is_tma), source_of(grad, plan.block_m, plan.is_tma), lse, delta, dq,
        query if bias is None else bias, q_starts, k_starts, blocks, *numbers_of(*given), *query.stride()[:3],
        *key.stride()[:3], *value.stride()[:3], *grad.stride()[:3], *dq.stride()[:3],
        *constants_of(plan, edges, *given), num_warps=plan.num_warps, num_stages=plan.num_stages,
    )  # fmt: skip


def launch_keys(plan: AttentionPlan, dk: torch.Tensor, dv: torch.Tensor, *given: Any) -> None:
    """dk and dv, with a plan; given: as `numbers_of`."""
    query, key, value, grad, lse, delta, bias, q_starts, k_starts, *_ = given
    batch, kv_heads, keys, _ = key.shape
    blocks = triton.cdiv(keys, plan.block_n) + (0 if k_starts is None else k_starts.numel() - 1)
    edges = query.shape[2] % plan.block_m != 0 or given[-2] < UNBOUNDED
    launcher(attention_backward_keys, (blocks * batch * kv_heads,))(
        source_of(query, plan.block_m, plan.is_tma), source_of(key, plan.block_n, plan.is_tma),
        source_of(value, plan.block_n, plan.is_tma), source_of(grad, plan.block_m, plan.is_tma), lse, delta, dk, dv,
        query if bias is None else bias, q_starts, k_starts, blocks, *numbers_of(*given), *query.stride()[:3],
        *key.stride()[:3], *value.stride()[:3], *grad.stride()[:3], *dk.stride()[:3], *dv.stride()[:3],
        *constants_of(plan, edges, *given), num_warps=plan.num_warps, num_stages=plan.num_stages,
    )  # fmt: skip


def numbers_of(*given: Any) -> tuple[Any, ...]:
    """What both kernels take from `heads` to `right`.

    Args:
        given: query, key, value, grad, lse, delta, bias, q_starts, k_starts, scale, left, right
    """
    query, key, *_, q_starts, _, scale, left, right = given
    sequences = 0 if q_starts is None else q_starts.numel() - 1
    heads, group = query.shape[1], query.shape[1] // key.shape[1]
    return heads, group, query.shape[2], key.shape[2], sequences, scale * LOG2_E, scale, left, right


def constants_of(plan: AttentionPlan, edges: bool, *given: Any) -> tuple[Any, ...]:
    """What both kernels take from `bias_b` on."""
    query, _, value, *_, bias, q_starts, _, _, left, right = given
    kind = 0 if bias is None else 1 if bias.dtype == torch.bool else 2
    shape = 0 if q_starts is None else triton.next_power_of_2(max(1, q_starts.numel() - 1))
    head, head_v = query.shape[3], value.shape[3]
    return (
        *((0, 0, 0, 0) if bias is None else bias.stride()), plan.block_m, plan.block_n, head, head_block(head), head_v,
        head_block(head_v), left < UNBOUNDED, right < UNBOUNDED, kind, edges or kind > 0 or shape > 0, shape,
        plan.is_tma, precision_of(query.dtype),
    )  # fmt: skip


operator = define(
    "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor out, Tensor lse, Tensor? bias,"
    " Tensor? q_starts, Tensor? k_starts, float scale, int left, int right) -> (Tensor, Tensor, Tensor)",
    launch,
    gradients,
    float32_precision,
)
