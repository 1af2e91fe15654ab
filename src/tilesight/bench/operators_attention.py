"""Attention, causal and not, and its gradients, judged by their FLOPs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from tilesight import kernels
from tilesight.bench import peers
from tilesight.bench.operator_model import Draw, Operator, Shape

HEADS: tuple[Shape, ...] = ((4, 16, 4096, 128), (4, 16, 4096, 64), (1, 16, 16384, 128), (1, 16, 16384, 64))
"""Batch, heads, tokens and a head's elements."""
SMALL_HEADS: tuple[Shape, ...] = ((1, 2, 33, 16),)
ODD_HEADS: tuple[Shape, ...] = ((1, 1, 7, 16), (2, 3, 65, 32), (1, 2, 129, 64))
OF_BACKWARD = 2.5
"""FLOPs of the gradients over those of the forward pass: five products where that has two."""

Function = Callable[..., torch.Tensor]


def _heads(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return draw.tensors(shape, shape, shape)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def _causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _attention_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return kernels.attention(q, k, v)


def _causal_attention_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return kernels.attention(q, k, v, is_causal=True)


def head_by_head(is_causal: bool) -> Function:
    """The mathematics with one head's scores at a time: in float64 all of them would not fit."""

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        parts = zip(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), strict=True)
        heads = [_one_head(one_q, one_k, one_v, is_causal) for one_q, one_k, one_v in parts]
        return torch.stack(heads).view(*q.shape[:3], v.shape[-1])

    return attention


def _one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return torch.softmax(scores, -1) @ v


def _flops(times: float) -> Callable[[Shape], int]:
    """Of two products, halved where only half of the scores count."""

    def flops(shape: Shape) -> int:
        batch, heads, tokens, head = shape
        return round(times * 4 * batch * heads * tokens * tokens * head)

    return flops


def _operator(is_causal: bool, is_backward: bool) -> Operator:
    return Operator(
        f"attention{'_causal' * is_causal}{'_backward' * is_backward}",
        _heads,
        _causal_attention if is_causal else _attention,
        _causal_attention_by_hand if is_causal else _attention_by_hand,
        peers.attention_peers(is_causal),
        "backward" if is_backward else "forward",
        saved=(0, 1, 2),
        reference=head_by_head(is_causal),
        flops=_flops((0.5 if is_causal else 1) * (OF_BACKWARD if is_backward else 1)),
        gpu_shapes=HEADS,
        cpu_shapes=SMALL_HEADS,
        odd_shapes=ODD_HEADS,
    )


ATTENTION_OPERATORS = tuple(
    _operator(is_causal, is_backward) for is_causal in (False, True) for is_backward in (False, True)
)
