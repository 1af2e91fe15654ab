"""Qwen3 8B: as Llama, with an RMSNorm over each head of queries and keys."""

from __future__ import annotations

from typing import Any

from .language import SMALL_GROUPED, causal_language_model, next_token_logits, next_token_loss
from .step import RealModel

PUBLISHED: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 4096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "rope_theta": 1_000_000.0,
    "tie_word_embeddings": False,
}


MODEL = RealModel(
    title="Qwen3 8B",
    origin="transformers Qwen3ForCausalLM",
    batch="1 x 4,096 tokens",
    inputs="i64[1,4096]<151936",
    parameters=8_190_735_360,
    build=causal_language_model("Qwen3", PUBLISHED),
    predict=next_token_logits,
    loss=next_token_loss,
    small=({**SMALL_GROUPED, "head_dim": 16}, "i64[2,32]<128"),
)
