"""Llama 3 8B: RMSNorm, rotary positions, grouped-query attention, SwiGLU."""

from __future__ import annotations

from typing import Any

from .language import SMALL_GROUPED, causal_language_model, next_token_logits, next_token_loss
from .step import RealModel

PUBLISHED: dict[str, Any] = {
    "vocab_size": 128_256,
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
}


MODEL = RealModel(
    title="Llama 3 8B",
    origin="transformers LlamaForCausalLM",
    batch="1 x 4,096 tokens",
    inputs="i64[1,4096]<128256",
    parameters=8_030_261_248,
    build=causal_language_model("Llama", PUBLISHED),
    predict=next_token_logits,
    loss=next_token_loss,
    small=(SMALL_GROUPED, "i64[2,32]<128"),
)
