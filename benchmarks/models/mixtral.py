"""Mixtral 8x7B: two of eight experts a token, chosen by their values."""

from __future__ import annotations

from typing import Any

from .language import SMALL_GROUPED, causal_language_model, next_token_logits, next_token_loss
from .step import RealModel

PUBLISHED: dict[str, Any] = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "rope_theta": 1_000_000.0,
    "sliding_window": None,
}


MODEL = RealModel(
    title="Mixtral 8x7B",
    origin="transformers MixtralForCausalLM",
    batch="1 x 4,096 tokens",
    inputs="i64[1,4096]<32000",
    parameters=46_702_792_704,
    build=causal_language_model("Mixtral", PUBLISHED),
    predict=next_token_logits,
    loss=next_token_loss,
    small=(SMALL_GROUPED, "i64[2,32]<128"),
)
