"""Losses: cross-entropy, alone and behind a linear layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from tilesight import kernels
from tilesight.bench import peers
from tilesight.bench.operator_model import Draw, Operator, Shape

CLASSES: tuple[Shape, ...] = ((8192, 131072), (8192, 32768), (16384, 8192))
LAYERS: tuple[Shape, ...] = ((8192, 4096, 131072), (8192, 4096, 32768))
"""Rows, features and classes."""
SMALL_LAYERS: tuple[Shape, ...] = ((16, 32, 64),)
ODD_LAYERS: tuple[Shape, ...] = ((1, 7, 5), (5, 33, 129), (3, 65, 1001))


def _logits(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return [*draw.tensors(shape), draw.integers(shape[:1], shape[1])]


def _layer(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    """x [rows, features], w [classes, features] scaled so that logits are about 1, and targets."""
    rows, features, classes = shape
    x, w = draw.tensors((rows, features), (classes, features))
    return [x, w.mul_(features**-0.5), draw.integers((rows,), classes)]


def _cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, target)


def _cross_entropy_by_hand(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return kernels.cross_entropy(x, target)


def _linear_cross_entropy(x: torch.Tensor, w: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(F.linear(x, w), target)


def _linear_cross_entropy_by_hand(x: torch.Tensor, w: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return kernels.linear_cross_entropy(x, w, target)


def _products(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    rows, features, classes = shape
    return draw.tensors((rows, features), (classes, features), (rows, classes))


def _three_products(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> list[torch.Tensor]:
    """The products of a linear layer and of its gradients, which no fusion saves."""
    return [x @ w.T, g @ w, g.T @ x]


def _flops(shape: Shape) -> int:
    """Of three products."""
    rows, features, classes = shape
    return 6 * rows * features * classes


_LOSS = (_logits, _cross_entropy, _cross_entropy_by_hand, peers.CROSS_ENTROPY)
LOSS_OPERATORS = (
    Operator("cross_entropy", *_LOSS, gpu_shapes=CLASSES),
    Operator("cross_entropy_both", *_LOSS, "both", gpu_shapes=CLASSES, overwriting=("liger",)),
    Operator(
        "linear_cross_entropy_both", _layer, _linear_cross_entropy, _linear_cross_entropy_by_hand,
        peers.LINEAR_CROSS_ENTROPY, "both", flops=_flops, gpu_shapes=LAYERS, cpu_shapes=SMALL_LAYERS,
        odd_shapes=ODD_LAYERS,
    ),
    Operator(
        "linear_cross_entropy_products", _products, _three_products, None, flops=_flops, gpu_shapes=LAYERS,
        cpu_shapes=SMALL_LAYERS, odd_shapes=ODD_LAYERS,
    ),
)  # fmt: skip
"""`_both`: the loss and its gradients, as one step of training has them."""
