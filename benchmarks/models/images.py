"""What the image classifiers of `transformers` share: pixels and class indices in, logits or the loss out."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F


def class_logits(model: nn.Module, pixels: Tensor, classes: Tensor) -> Tensor:
    """Logits [batch, classes]; the class indices are not read."""
    made: Any = model(pixel_values=pixels)
    return made.logits


def class_loss(model: nn.Module, pixels: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy against the class indices, in float32."""
    return F.cross_entropy(class_logits(model, pixels, classes).float(), classes)
