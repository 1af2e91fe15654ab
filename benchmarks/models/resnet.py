"""ResNet-50: convolutions, batch norms with running statistics, bottleneck blocks."""

from __future__ import annotations

from typing import Any

from torch import nn

from .images import class_logits, class_loss
from .step import RealModel


def build(**changes: Any) -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(**{"num_labels": 1000, **changes}))


MODEL = RealModel(
    title="ResNet-50",
    origin="transformers ResNetForImageClassification",
    batch="64 images of 224 x 224",
    inputs="bf16[64,3,224,224],i64[64]<1000",
    parameters=25_557_032,
    build=build,
    predict=class_logits,
    loss=class_loss,
    small=(
        {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 1], "num_labels": 10},
        "bf16[2,3,32,32],i64[2]<10",
    ),
)
