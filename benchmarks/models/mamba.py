"""Mamba 130M by its slow path: the state is carried from token to token in a Python loop, which Dynamo unrolls."""

from __future__ import annotations

from typing import Any

from torch import nn

from .language import next_token_logits, next_token_loss, with_its_loss
from .step import RealModel

PUBLISHED: dict[str, Any] = {
    "vocab_size": 50_280,
    "hidden_size": 768,
    "state_size": 16,
    "num_hidden_layers": 24,
    "expand": 2,
    "time_step_rank": 48,
}


def build(**changes: Any) -> nn.Module:
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(**{**PUBLISHED, "use_associative_scan": False, **changes})
    return with_its_loss(MambaForCausalLM(config), "ForCausalLM")


MODEL = RealModel(
    title="Mamba 130M, slow path",
    origin="transformers MambaForCausalLM",
    batch="8 x 8 tokens",
    inputs="i64[8,8]<50280",
    parameters=129_135_360,
    build=build,
    predict=next_token_logits,
    loss=next_token_loss,
    small=(
        {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "time_step_rank": 4},
        "i64[2,8]<128",
    ),
)
