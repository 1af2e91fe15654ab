"""Operators that take each element on its own, or only move it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from tilesight import kernels
from tilesight.bench import peers
from tilesight.bench.operator_model import Draw, Operator, Shape, bytes_of, one_matrix, two_matrices
from tilesight.bench.peers import DROPPED
from tilesight.capture.numerics import Verdict, judge, tolerance_of

LINES: tuple[Shape, ...] = ((1 << 28,), (100_000,))
"""One too long for any L2, and a beginner's."""
WIDE: tuple[Shape, ...] = ((32768, 4096), (8192, 16384))
HEADS: tuple[Shape, ...] = ((4, 4096, 32, 128), (1, 4096, 32, 128))
"""Batch, tokens, heads and a head's elements of the queries; a quarter as many heads of the keys."""
TABLES: tuple[Shape, ...] = ((16384, 131072, 4096), (1024, 32768, 1024))
"""Indices, rows of the table, columns."""
TURNED: tuple[Shape, ...] = ((16384, 8192), (131072, 1024), (1024, 131072), (8191, 16385))
CONFIDENT = 6.0
"""Standard deviations that a share of dropped elements may lie off."""


def _add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + y)


def _swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def _geglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.gelu(gate, approximate="tanh") * up


def _geglu_by_hand(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return kernels.geglu(gate, up, "tanh")


def _heads(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    """q [batch, heads, tokens, dim] and k as models have them, views of [batch, tokens, heads, dim]; cos and sin."""
    batch, tokens, heads, dim = shape
    q, k = draw.tensors(shape, (batch, tokens, max(1, heads // 4), dim))
    steps = torch.arange(0, dim, 2, device=draw.device, dtype=torch.float64) / dim
    angles = torch.outer(torch.arange(tokens, device=draw.device, dtype=torch.float64), 10000.0**-steps)
    wide = torch.cat([angles, angles], -1)
    return [q.transpose(1, 2), k.transpose(1, 2), wide.cos().to(draw.dtype), wide.sin().to(draw.dtype)]


def _rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> list[torch.Tensor]:
    """As models write it."""
    return [x * cos + _half_turned(x) * sin for x in (q, k)]


def _half_turned(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


def _rope_by_hand(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> list[torch.Tensor]:
    return [kernels.rope(x, cos, sin) for x in (q, k)]


def _table(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    count, rows, columns = shape
    return [draw.integers((count,), rows), *draw.tensors((rows, columns))]


def _embedding_bytes(inputs: Sequence[torch.Tensor]) -> int:
    """The indices, each row that is named once, and the output."""
    index, table = inputs
    named = int(index.unique().numel())
    return bytes_of([index]) + (named + index.numel()) * table.shape[1] * table.element_size()


def _turned(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).contiguous()


def _turned_by_hand(x: torch.Tensor) -> torch.Tensor:
    return kernels.transpose(x, 0, 1)


def _dropout(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, DROPPED)


def _dropout_by_hand(x: torch.Tensor) -> torch.Tensor:
    return kernels.dropout(x, DROPPED)


def judge_dropout(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Verdict:
    """Every element is 0 or x / (1 − p), and the share of zeros is p within what chance allows."""
    (y,), (x,) = outputs, inputs
    dropped = (y == 0) & (x != 0)
    kept = judge(y, [(x.double() / (1 - DROPPED)).masked_fill(dropped, 0.0)])
    drawn = int((x != 0).sum())
    off = abs(int(dropped.sum()) / max(1, drawn) - DROPPED)
    is_fair = off <= CONFIDENT * (DROPPED * (1 - DROPPED) / max(1, drawn)) ** 0.5
    return kept if is_fair else Verdict(False, max(off, kept.max_error), tolerance_of(y.dtype))


_ROPE = (_heads, _rope, _rope_by_hand)
_TABLE = (_table, F.embedding, kernels.embedding)

_SWIGLU = (two_matrices, _swiglu, kernels.swiglu, peers.SWIGLU)
_GEGLU = (two_matrices, _geglu, _geglu_by_hand, peers.GEGLU)

ELEMENT_OPERATORS = (
    Operator("add", two_matrices, torch.add, kernels.add, peers.ADD, gpu_shapes=LINES, gpu_dtype="float32"),
    Operator("add_relu", two_matrices, _add_relu, kernels.add_relu, gpu_shapes=LINES, gpu_dtype="float32"),
    Operator("swiglu", *_SWIGLU, gpu_shapes=WIDE),
    Operator("swiglu_backward", *_SWIGLU, "backward", saved=(0, 1), gpu_shapes=WIDE, overwriting=("liger",)),
    Operator("geglu", *_GEGLU, gpu_shapes=WIDE),
    Operator("geglu_backward", *_GEGLU, "backward", saved=(0, 1), gpu_shapes=WIDE, overwriting=("liger",)),
    Operator(
        "rope", *_ROPE, peers.ROPE, gpu_shapes=HEADS, cpu_shapes=((2, 5, 4, 16),), overwriting=("liger",),
        odd_shapes=((1, 1, 1, 2), (2, 7, 5, 6), (1, 3, 9, 66)),
    ),
    Operator(
        "rope_backward", *_ROPE, mode="backward", with_gradient=(0, 1), saved=(2, 3), gpu_shapes=HEADS,
        cpu_shapes=((2, 5, 4, 16),), odd_shapes=((1, 1, 1, 2), (2, 7, 5, 6), (1, 3, 9, 66)),
    ),
    Operator("transpose", one_matrix, _turned, _turned_by_hand, gpu_shapes=TURNED),
    Operator("dropout", one_matrix, _dropout, _dropout_by_hand, peers.DROPOUT, judge=judge_dropout, gpu_shapes=WIDE),
    Operator(
        "embedding", *_TABLE, peers.EMBEDDING, fewest_bytes=_embedding_bytes, gpu_shapes=TABLES,
        cpu_shapes=((40, 16, 64),), odd_shapes=((1, 3, 7), (33, 4, 129), (5, 2, 1000)),
    ),
    Operator(
        "embedding_backward", *_TABLE, mode="backward", gpu_shapes=TABLES, cpu_shapes=((40, 16, 64),),
        odd_shapes=((1, 3, 7), (33, 4, 129), (5, 2, 1000)),
    ),
)  # fmt: skip
