"""T5 small: encoder and decoder, relative position biases, RMSNorm without a bias, ReLU."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .language import with_its_loss
from .step import RealModel


def build(**changes: Any) -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(**{"num_layers": 6, "d_model": 512, "decoder_start_token_id": 0, **changes})
    return with_its_loss(T5ForConditionalGeneration(config), "ForConditionalGeneration")


def predict(model: nn.Module, source: Tensor, labels: Tensor) -> Tensor:
    """Logits [batch, target tokens, vocabulary]."""
    made: Any = model(input_ids=source, decoder_input_ids=labels, use_cache=False)
    return made.logits


def loss(model: nn.Module, source: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the target's tokens, which the model shifts itself."""
    made: Any = model(input_ids=source, labels=labels, use_cache=False)
    return made.loss


MODEL = RealModel(
    title="T5 small",
    origin="transformers T5ForConditionalGeneration",
    batch="32 x 512 tokens, 128 target tokens",
    inputs="i64[32,512]<32128,i64[32,128]<32128",
    parameters=60_506_624,
    build=build,
    predict=predict,
    loss=loss,
    small=(
        {"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4},
        "i64[2,32]<128,i64[2,16]<128",
    ),
)
