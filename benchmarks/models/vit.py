"""ViT-B/16 at 224 pixels: patches by a strided convolution, 197 tokens, pre-LayerNorm."""

from __future__ import annotations

from typing import Any

from torch import nn

from .images import class_logits, class_loss
from .step import RealModel


def build(**changes: Any) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(**{"num_labels": 1000, **changes}))


MODEL = RealModel(
    title="ViT-B/16",
    origin="transformers ViTForImageClassification",
    batch="64 images of 224 x 224",
    inputs="bf16[64,3,224,224],i64[64]<1000",
    parameters=86_567_656,
    build=build,
    predict=class_logits,
    loss=class_loss,
    small=(
        {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 32,
            "num_labels": 10,
        },
        "bf16[2,3,32,32],i64[2]<10",
    ),
)
