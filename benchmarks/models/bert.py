"""BERT base, masked language modelling: post-LayerNorm, erf GELU, padding mask, dropout in training."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .language import SMALL, with_its_loss
from .step import RealModel


def build(**changes: Any) -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    return with_its_loss(BertForMaskedLM(BertConfig(**changes)), "ForMaskedLM")


def predict(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    made: Any = model(input_ids=ids, attention_mask=mask)
    return made.logits


def loss(model: nn.Module, ids: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    made: Any = model(input_ids=ids, attention_mask=mask, labels=labels)
    return made.loss


MODEL = RealModel(
    title="BERT base",
    origin="transformers BertForMaskedLM",
    batch="32 x 512 tokens",
    inputs="i64[32,512]<30522,i64[32,512]<2,i64[32,512]<30522",
    parameters=109_514_298,
    build=build,
    predict=predict,
    loss=loss,
    small=(SMALL, "i64[2,32]<128,i64[2,32]<2,i64[2,32]<128"),
)
