"""What the language models of `transformers` share: token ids in, logits or the loss of the next token out."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


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
