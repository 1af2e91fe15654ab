"""Calls of scaled_dot_product_attention that differ in what torch looks at when it chooses a kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class CallSpec:
    """One call, without its tensors.

    Args:
        heads: of queries and of keys
        lengths: of queries and of keys
        sizes: of a query's head and of a value's
        mask: "", or the mask's dtype and shape, such as "bool [4, 1, 100, 100]"
        layout: "dense", "heads last" (a transposed view of [batch, length, heads, head]), "strided" (every other
            element) or "3d"
    """

    dtype: torch.dtype = torch.bfloat16
    heads: tuple[int, int] = (4, 4)
    lengths: tuple[int, int] = (100, 100)
    sizes: tuple[int, int] = (64, 64)
    mask: str = ""
    is_causal: bool = False
    dropout: float = 0.0
    is_trained: bool = False
    layout: str = "dense"

    @property
    def is_grouped(self) -> bool:
        return self.heads[0] != self.heads[1]

    def tensors(self, device: str) -> tuple[Any, Any, Any]:
        """Query, key and value of two batches."""
        query_head, value_head = self.sizes
        shapes = (
            (self.heads[0], self.lengths[0], query_head),
            (self.heads[1], self.lengths[1], query_head),
            (self.heads[1], self.lengths[1], value_head),
        )
        query, key, value = (self._tensor(*shape, device) for shape in shapes)
        return query, key, value

    def _tensor(self, heads: int, length: int, head: int, device: str) -> torch.Tensor:
        made: dict[str, Any] = {"dtype": self.dtype, "device": device, "requires_grad": self.is_trained}
        if self.layout == "heads last":
            return torch.zeros(2, length, heads, head, **made).transpose(1, 2)
        if self.layout == "strided":
            return torch.zeros(2, heads, length, 2 * head, **made)[..., ::2]
        if self.layout == "3d":
            return torch.zeros(heads, length, head, **made)
        return torch.zeros(2, heads, length, head, **made)

    def mask_tensor(self, device: str) -> Any:
        if not self.mask:
            return None
        kind, _, shape = self.mask.partition(" ")
        return torch.zeros(eval(shape), dtype=torch.bool if kind == "bool" else self.dtype, device=device)


SIZES = ((64, 64), (8, 8), (1, 1), (33, 33), (96, 96), (100, 100), (128, 128), (136, 136), (192, 128), (64, 128))
LARGE_SIZES = ((160, 160), (192, 192), (200, 200), (224, 224), (248, 248), (256, 256), (264, 264), (128, 64))
MASKS = (
    "bool [100, 100]",
    "bool [1, 100]",
    "bool [2, 1, 1, 100]",
    "bool [2, 4, 1, 100]",
    "added [100, 100]",
    "added [2, 4, 100, 100]",
    "added [4, 100, 100]",
)
LENGTHS = ((1, 100), (100, 1), (1, 1), (7, 100), (100, 7), (128, 128), (0, 100), (100, 0), (1024, 1024))


def call_specs() -> Iterator[CallSpec]:
    """Each thing varied alone and with those it may depend on."""
    for dtype, is_trained in itertools.product(DTYPES, (False, True)):
        yield from (CallSpec(dtype, sizes=sizes, is_trained=is_trained) for sizes in (*SIZES, *LARGE_SIZES))
        yield from (CallSpec(dtype, mask=mask, is_trained=is_trained) for mask in MASKS)
        yield from (CallSpec(dtype, dropout=each, is_trained=is_trained) for each in (0.1, 0.125, 0.25, 0.5))
        for heads, is_causal in itertools.product(((8, 2), (8, 1), (6, 4)), (False, True)):
            yield CallSpec(dtype, heads=heads, is_causal=is_causal, is_trained=is_trained)
    for dtype, lengths, is_causal, dropout in itertools.product(DTYPES, LENGTHS, (False, True), (0.0, 0.125)):
        yield CallSpec(dtype, lengths=lengths, is_causal=is_causal, dropout=dropout)
    layouts = ("heads last", "strided", "3d")
    for dtype, layout, size in itertools.product(DTYPES, layouts, (64, 33, 1)):
        yield CallSpec(dtype, layout=layout, sizes=(size, size))
