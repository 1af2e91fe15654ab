"""GPT-2, 124 million weights: LayerNorm, learned positions, tanh GELU, dropout in training."""

from __future__ import annotations

from typing import Any

from torch import nn

from .language import next_token_logits, next_token_loss, with_its_loss
from .step import RealModel


def build(**changes: Any) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return with_its_loss(GPT2LMHeadModel(GPT2Config(**changes)), "ForCausalLM")


MODEL = RealModel(
    title="GPT-2 124M",
    origin="transformers GPT2LMHeadModel",
    batch="8 x 1,024 tokens",
    inputs="i64[8,1024]<50257",
    parameters=124_439_808,
    build=build,
    predict=next_token_logits,
    loss=next_token_loss,
    small=({"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 128}, "i64[2,32]<128"),
)
