"""DLRM: 26 embedding tables, dot products of their rows, two MLPs; the recommendation model of MLPerf."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .step import RealModel

ROWS = (
    39_884_406, 39_043, 17_289, 7_420, 20_263, 3, 7_120, 1_543, 63, 38_532_951, 2_953_546, 403_346, 10,
    2_208, 11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36,
)  # fmt: skip
"""Rows of each table for the Criteo terabyte data, at most 40 million: MLPerf Training's DLRM."""


def layers(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers, each with a ReLU behind it."""
    return nn.Sequential(*(module for a, b in itertools.pairwise(sizes) for module in (nn.Linear(a, b), nn.ReLU())))


class Dlrm(nn.Module):
    """Dense features [batch, 13] and one row number a table [batch, tables] → a click's logit [batch].

    Source: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems" (2019);
        widths and rows of MLPerf Training's DLRM on the Criteo terabyte data
    """

    def __init__(
        self,
        rows: Sequence[int] = ROWS,
        width: int = 128,
        bottom: Sequence[int] = (512, 256),
        top: Sequence[int] = (1024, 1024, 512, 256),
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(count, width, mode="sum") for count in rows)
        self.bottom = layers((13, *bottom, width))
        vectors = len(rows) + 1
        self.top = layers((width + vectors * (vectors - 1) // 2, *top))
        self.last = nn.Linear(top[-1], 1)

    def forward(self, dense: Tensor, indices: Tensor) -> Tensor:
        x = self.bottom(dense)
        found = [table(indices[:, number, None]) for number, table in enumerate(self.tables)]
        vectors = torch.stack([x, *found], dim=1)
        products = vectors @ vectors.transpose(1, 2)
        row, column = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1, device=x.device)
        return self.last(self.top(torch.cat([x, products[:, row, column]], dim=1))).squeeze(1)


def build(**changes: Any) -> nn.Module:
    return Dlrm(**changes)


def predict(model: nn.Module, dense: Tensor, indices: Tensor, clicks: Tensor) -> Tensor:
    return torch.sigmoid(model(dense, indices))


def loss(model: nn.Module, dense: Tensor, indices: Tensor, clicks: Tensor) -> Tensor:
    """Binary cross-entropy of the clicks, in float32."""
    return F.binary_cross_entropy_with_logits(model(dense, indices).float(), clicks.float())


MODEL = RealModel(
    title="DLRM, Criteo terabyte",
    origin="written out after Naumov et al. 2019, sizes of MLPerf Training",
    batch="8,192 samples",
    inputs="bf16[8192,13],i64[8192,26]<3,bf16[8192]",
    parameters=24_036_595_969,
    build=build,
    predict=predict,
    loss=loss,
    small=({"rows": (100, 50, 3), "width": 16, "bottom": (32,), "top": (32,)}, "bf16[32,13],i64[32,3]<3,bf16[32]"),
)
