"""Launchers and kernels that take a tensor to be contiguous, or laid out as another one is."""

# pyright: basic, reportArgumentType=false, reportGeneralTypeIssues=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.corpus.launchers import normal
from tests.corpus.model import Seeded
from tilesight import Case


def seeded(name, shape, eager, launchers, inputs, *lines):
    """Two launchers of one operator; the fault is where the first launches and where `lines` load."""
    faulty, repaired = launchers
    cases = Case(eager, faulty, inputs), Case(eager, repaired, inputs)
    return Seeded("stride", name, shape, *cases, functions=(faulty, *lines))


def like(x):
    return torch.empty(x.shape, dtype=x.dtype)


@triton.jit
def softsign_dense(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)  # fault
    tl.store(out_ptr + i, x / (1 + tl.abs(x)), mask=i < n)


@triton.jit
def softsign_spaced(x_ptr, out_ptr, n, x_stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * x_stride, mask=i < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + i, x / (1 + tl.abs(x)), mask=i < n)


def softsign_of_dense(x):
    out, n = like(x), x.numel()
    softsign_dense[(triton.cdiv(n, 256),)](x, out, n, BLOCK=256)  # fault
    return out


def softsign_of_any(x):
    out, n = like(x), x.numel()
    softsign_spaced[(triton.cdiv(n, 256),)](x, out, n, x.stride(0), BLOCK=256)
    return out


@triton.jit
def add_flat(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)  # fault
    tl.store(out_ptr + i, x.to(tl.float32) + y, mask=i < n)


def add_as_if_both_were_dense(x, y):
    x, out, n = x.contiguous(), like(x), x.numel()
    add_flat[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)  # fault
    return out


def add_dense_copies(x, y):
    x, out, n = x.contiguous(), like(x), x.numel()
    add_flat[(triton.cdiv(n, 512),)](x, y.contiguous(), out, n, BLOCK=512)
    return out


@triton.jit
def soften(x_ptr, out_ptr, x_stride, x_step, cols, BLOCK: tl.constexpr):
    row, peak = tl.program_id(0), float("-inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + c * x_step, mask=c < cols, other=float("-inf")).to(tl.float32)  # fault
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp(peak - new_peak) + tl.sum(tl.exp(x - new_peak), axis=0)
        peak = new_peak
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + c * x_step, mask=c < cols, other=float("-inf")).to(tl.float32)  # fault
        tl.store(out_ptr + row * cols + c, tl.exp(x - peak) / total, mask=c < cols)


def softmax_of_adjacent_rows(x):
    out, (rows, cols) = like(x), x.shape
    soften[(rows,)](x, out, cols, x.stride(1), cols, BLOCK=64)  # fault
    return out


def softmax_of_adjacent_elements(x):
    out, (rows, cols) = like(x), x.shape
    soften[(rows,)](x, out, x.stride(0), 1, cols, BLOCK=64)  # fault
    return out


def softmax_of_any(x):
    out, (rows, cols) = like(x), x.shape
    soften[(rows,)](x, out, x.stride(0), x.stride(1), cols, BLOCK=64)
    return out


def softmax(x):
    return x.softmax(1)


@triton.jit
def place(x_ptr, row, c, stride, step):
    return x_ptr + row * stride + c * step


@triton.jit
def load_span(x_ptr, row, c, stride, step, cols):
    return tl.load(place(x_ptr, row, c, stride, step), mask=c < cols, other=0.0).to(tl.float32)  # fault


@triton.jit
def row_norms(x_ptr, out_ptr, stride, step, cols, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        x = load_span(x_ptr, row, start + tl.arange(0, BLOCK), stride, step, cols)
        total += x * x
    tl.store(out_ptr + row, tl.sqrt(tl.sum(total, axis=0)))


def norms_of_packed(x):
    out = torch.empty(x.shape[0], dtype=x.dtype)
    row_norms[(x.shape[0],)](x, out, x.shape[1], 1, x.shape[1], BLOCK=32)  # fault
    return out


def norms_of_any(x):
    out = torch.empty(x.shape[0], dtype=x.dtype)
    row_norms[(x.shape[0],)](x, out, x.stride(0), x.stride(1), x.shape[1], BLOCK=32)
    return out


@triton.jit
def bias_at(bias_ptr, c, cols, step):
    return tl.load(bias_ptr + c * step, mask=c < cols, other=0.0)  # fault


@triton.jit
def shifted_by_bias(x, bias_ptr, c, cols, step):
    return x + bias_at(bias_ptr, c, cols, step)


@triton.jit
def add_bias(x_ptr, bias_ptr, out_ptr, cols, bias_step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * cols + c, shifted_by_bias(x, bias_ptr, c, cols, bias_step), mask=c < cols)


def add_dense_bias(x, bias):
    x, out = x.contiguous(), like(x)
    add_bias[(x.shape[0],)](x, bias, out, x.shape[1], 1, BLOCK=32)  # fault
    return out


def add_any_bias(x, bias):
    x, out = x.contiguous(), like(x)
    add_bias[(x.shape[0],)](x, bias, out, x.shape[1], bias.stride(0), BLOCK=32)
    return out


@triton.jit
def load_left(at, m, k, M, K):
    return tl.load(at, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)  # fault


@triton.jit
def load_right(at, k, n, K, N):
    return tl.load(at, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)  # fault


@triton.jit
def batched_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, a_batch, am, ak, b_batch, bk, bn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    batch, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    m = tile // tl.cdiv(N, BN) * BM + tl.arange(0, BM)
    n = tile % tl.cdiv(N, BN) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = load_left(a_ptr + batch * a_batch + m[:, None] * am + k[None, :] * ak, m, k, M, K)
        b = load_right(b_ptr + batch * b_batch + k[:, None] * bk + n[None, :] * bn, k, n, K, N)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_at = c_ptr + batch * M * N + m[:, None] * N + n[None, :]
    tl.store(c_at, acc, mask=(m[:, None] < M) & (n[None, :] < N))


def launch_matmul(a, b, a_strides, b_strides):
    (B, M, K), N = a.shape, b.shape[2]
    c = torch.empty(B, M, N, dtype=a.dtype)
    grid = (B * triton.cdiv(M, 32) * triton.cdiv(N, 32),)
    batched_matmul[grid](a, b, c, M, N, K, *a_strides, *b_strides, BM=32, BN=32, BK=32)  # fault
    return c


def bmm_of_packed_batches(a, b):
    packed = a.shape[1] * a.shape[2]
    return launch_matmul(a, b, (packed, *a.stride()[1:]), b.stride())


def bmm_of_row_major(a, b):
    return launch_matmul(a, b, a.stride(), (b.stride(0), b.shape[2], 1))


def bmm_of_any(a, b):
    return launch_matmul(a, b, a.stride(), b.stride())


@triton.jit
def load_queries(at, m, S):
    return tl.load(at, mask=m[:, None] < S, other=0.0)  # fault


@triton.jit
def load_keys(at, n, S):
    return tl.load(at, mask=n[None, :] < S, other=0.0)  # fault


@triton.jit
def load_values(at, n, S):
    return tl.load(at, mask=n[:, None] < S, other=0.0)  # fault


@triton.jit
def attend(
    q_ptr, k_ptr, v_ptr, o_ptr, S, scale, qh, qs, qd, kh, ks, kd, vh, vs, vd,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    m, d, head = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.program_id(1)
    q = load_queries(q_ptr + head * qh + m[:, None] * qs + d[None, :] * qd, m, S)
    peak = tl.full((BM,), float("-inf"), dtype=tl.float32)
    total, acc = tl.zeros((BM,), dtype=tl.float32), tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        k = load_keys(k_ptr + head * kh + n[None, :] * ks + d[:, None] * kd, n, S)
        v = load_values(v_ptr + head * vh + n[:, None] * vs + d[None, :] * vd, n, S)
        s = tl.where(n[None, :] < S, tl.dot(q, k, input_precision="ieee") * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.exp(s - new_peak[:, None])
        shrink = tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v.to(tl.float32), acc * shrink[:, None], input_precision="ieee")
        peak = new_peak
    o_at = o_ptr + (head * S + m)[:, None] * D + d[None, :]
    tl.store(o_at, acc / total[:, None], mask=m[:, None] < S)


def attend_packed_heads(q, k, v):
    (H, S, D), o = q.shape, like(q)
    layout = (S * D, D, 1)
    attend[(triton.cdiv(S, 16), H)](q, k, v, o, S, 0.25, *layout, *layout, *layout, D=D, BM=16, BN=16)  # fault
    return o


def attend_all_as_queries(q, k, v):
    (H, S, D), o = q.shape, like(q)
    layout = q.stride()
    attend[(triton.cdiv(S, 16), H)](q, k, v, o, S, 0.25, *layout, *layout, *layout, D=D, BM=16, BN=16)  # fault
    return o


def attend_any(q, k, v):
    (H, S, D), o = q.shape, like(q)
    layouts = (*q.stride(), *k.stride(), *v.stride())
    attend[(triton.cdiv(S, 16), H)](q, k, v, o, S, 0.25, *layouts, D=D, BM=16, BN=16)
    return o


def heads():
    return tuple(normal(3, 40, 16, seed=seed) for seed in (131, 132, 133))


@triton.jit
def count_flat(labels_ptr, counts_ptr, n, bins, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(labels_ptr + i, mask=i < n, other=0)  # fault
    tl.atomic_add(counts_ptr + label, 1, mask=(i < n) & (label < bins))


def count_dense(labels):
    counts, n = torch.zeros(8, dtype=torch.int64), labels.numel()
    count_flat[(triton.cdiv(n, 128),)](labels, counts, n, 8, BLOCK=128)  # fault
    return counts


def count_dense_copy(labels):
    counts, n = torch.zeros(8, dtype=torch.int64), labels.numel()
    count_flat[(triton.cdiv(n, 128),)](labels.contiguous(), counts, n, 8, BLOCK=128)
    return counts


def counted(labels):
    return torch.bincount(labels.flatten().long(), minlength=8)


def scaled_attention(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.25)


CASES = (
    seeded(
        "elements side by side",
        "vector",
        torch.nn.functional.softsign,
        (softsign_of_dense, softsign_of_any),
        "f32[1000]",
        softsign_dense,
    ),
    seeded(
        "both operands flat",
        "vector",
        torch.add,
        (add_as_if_both_were_dense, add_dense_copies),
        "f32[30,50],f32[30,50]",
        add_flat,
    ),
    seeded("rows end to end", "row", softmax, (softmax_of_adjacent_rows, softmax_of_any), "f32[37,93]", soften),
    seeded("last stride of one", "row", softmax, (softmax_of_adjacent_elements, softmax_of_any), "f32[37,93]", soften),
    seeded(
        "rows end to end through helpers",
        "row",
        lambda x: x.norm(dim=1),
        (norms_of_packed, norms_of_any),
        "f32[37,93]",
        load_span,
    ),
    seeded(
        "dense bias through helpers", "row", torch.add, (add_dense_bias, add_any_bias), "f32[19,50],f32[50]", bias_at
    ),
    seeded(
        "batches end to end",
        "matmul",
        torch.bmm,
        (bmm_of_packed_batches, bmm_of_any),
        "f32[3,40,50],f32[3,50,36]",
        launch_matmul,
        load_left,
    ),
    seeded(
        "second factor row-major",
        "matmul",
        torch.bmm,
        (bmm_of_row_major, bmm_of_any),
        "f32[3,40,50],f32[3,50,36]",
        launch_matmul,
        load_right,
    ),
    seeded(
        "heads end to end",
        "attention",
        scaled_attention,
        (attend_packed_heads, attend_any),
        heads,
        load_queries,
        load_keys,
        load_values,
    ),
    seeded(
        "keys laid out as queries",
        "attention",
        scaled_attention,
        (attend_all_as_queries, attend_any),
        heads,
        load_keys,
        load_values,
    ),
    seeded("labels flat", "atomic", counted, (count_dense, count_dense_copy), "i64[30,40]<8", count_flat),
)
