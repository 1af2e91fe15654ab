"""What a model of the catalogue is: how it is built, what it is given, where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


class Step(nn.Module):
    """A model as one function of tensors: what it predicts, or, in training mode, its loss.

    Args:
        model: the network
        predict: (model, inputs…) → what an inference returns
        loss: (model, inputs…) → a scalar; gradients start here
    """

    def __init__(self, model: nn.Module, predict: Callable[..., Tensor], loss: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model = model
        self.predict = predict
        self.loss = loss

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.loss(self.model, *inputs) if self.training else self.predict(self.model, *inputs)


@dataclass(frozen=True)
class RealModel:
    """One row of the catalogue.

    Args:
        title: the model's name with its published size
        origin: the class it is, or whose paper it is written out after
        batch: batch and sequence, or image size, in words
        inputs: the same as a text that `tilesight observe --inputs` takes
        parameters: how many weights the published model has
        build: (**changes) → the network; called where torch's default device is meta, so that weights take no memory.
            Without changes it has the published size
        predict, loss: see Step
        small: the changes, and the inputs, that make it small enough for a test
    """

    title: str
    origin: str
    batch: str
    inputs: str
    parameters: int
    build: Callable[..., nn.Module]
    predict: Callable[..., Tensor]
    loss: Callable[..., Tensor]
    small: tuple[dict[str, Any], str]

    def step(self, **changes: Any) -> Step:
        """The model in bf16 with its weights on the meta device."""
        with torch.device("meta"):
            model = self.build(**changes)
        return Step(model.to(torch.bfloat16), self.predict, self.loss)
