"""What the language models of `transformers` share: token ids in, logits or the loss of the next token out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

SMALL: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
"""What makes a model small enough for a test."""
SMALL_GROUPED = {**SMALL, "num_key_value_heads": 2}
"""The same where several heads of queries share one of keys."""


def with_its_loss(model: Any, loss_type: str) -> nn.Module:
    """The model with its loss chosen; otherwise it logs which one it takes, and a call that logs breaks the graph."""
    model.loss_type = loss_type
    return model


def next_token_logits(model: nn.Module, ids: Tensor) -> Tensor:
    """Logits of every position [batch, tokens, vocabulary], no cache of keys and values."""
    made: Any = model(input_ids=ids, use_cache=False)
    return made.logits


def next_token_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Cross-entropy of each token after the ones before it."""
    made: Any = model(input_ids=ids, labels=ids, use_cache=False)
    return made.loss


def causal_language_model(name: str, published: Mapping[str, Any]) -> Callable[..., nn.Module]:
    """What builds `NAMEForCausalLM` of `transformers` with the published configuration and changes to it."""

    def build(**changes: Any) -> nn.Module:
        import transformers

        config = getattr(transformers, f"{name}Config")(**{**published, **changes})
        return with_its_loss(getattr(transformers, f"{name}ForCausalLM")(config), "ForCausalLM")

    return build
