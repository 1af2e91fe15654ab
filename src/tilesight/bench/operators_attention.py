"""Attention, causal and not, and its gradients, judged by their FLOPs; of one new token, judged by its bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from tilesight import kernels
from tilesight.bench import peers
from tilesight.bench.operator_model import Draw, Operator, Shape, bytes_of

HEADS: tuple[Shape, ...] = ((4, 16, 4096, 128), (4, 16, 4096, 64), (1, 16, 16384, 128), (1, 16, 16384, 64))
"""Batch, heads, tokens and a head's elements."""
SMALL_HEADS: tuple[Shape, ...] = ((1, 2, 33, 16),)
ODD_HEADS: tuple[Shape, ...] = ((1, 1, 7, 16), (2, 3, 65, 32), (1, 2, 129, 64))
CACHES: tuple[Shape, ...] = ((64, 32, 4096, 128), (16, 32, 8192, 128), (1, 32, 131072, 128))
"""Sequences, heads, tokens at most and a head's elements; a quarter as many heads of keys and values."""
SMALL_CACHES: tuple[Shape, ...] = ((3, 4, 40, 16),)
ODD_CACHES: tuple[Shape, ...] = ((1, 1, 3, 16), (3, 8, 33, 32), (2, 6, 129, 64))
PAGE = 256
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


def _paged(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    """q [sequences, heads, head], both caches in pages, whose order is shuffled, the table and the lengths."""
    sequences, heads, tokens, head = shape
    page = min(PAGE, 16 * -(-tokens // 48))
    pages = -(-tokens // page)
    cache = sequences * pages, page, max(1, heads // 4), head
    q, keys, values = draw.tensors((sequences, heads, head), cache, cache)
    table = draw.integers((cache[0],), 1 << 40).argsort().view(sequences, pages).to(torch.int32)
    lengths = (tokens - draw.integers((sequences,), min(tokens, page))).to(torch.int32)
    return [q, keys, values, table, lengths]


def _decode(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """The pages of each sequence gathered, then PyTorch's attention under a mask of what is in them."""
    k, v = (each[table.long()].flatten(1, 2).transpose(1, 2) for each in (keys, values))
    seen = torch.arange(k.shape[2], device=q.device) < lengths[:, None]
    out = F.scaled_dot_product_attention(q[:, :, None], k, v, seen[:, None, None], enable_gqa=True)
    return out.squeeze(2)


def _decode_by_hand(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    return kernels.decode_attention(q, keys, values, table, lengths)


def _decode_bytes(inputs: Sequence[torch.Tensor]) -> int:
    """The tokens that are there, once; the queries, the table, the lengths and the output."""
    q, keys, values, table, lengths = inputs
    of_token = sum(each.shape[2] * each.shape[3] * each.element_size() for each in (keys, values))
    return int(lengths.sum()) * of_token + 2 * bytes_of([q]) + bytes_of([table, lengths])


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


ATTENTION_OPERATORS = (
    *(_operator(is_causal, is_backward) for is_causal in (False, True) for is_backward in (False, True)),
    Operator(
        "decode_attention", _paged, _decode, _decode_by_hand, peers.DECODE, fewest_bytes=_decode_bytes,
        gpu_shapes=CACHES, cpu_shapes=SMALL_CACHES, odd_shapes=ODD_CACHES,
    ),
)  # fmt: skip
