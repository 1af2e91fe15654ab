"""Cross-entropy of the hand-written library on a GPU: losses and gradients against float64, and its memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.gpu.drawn import DEVICE, DTYPES, draw, draw_integers
from tests.kernels_library.against_float64 import assert_near_float64
from tilesight.bench.numbers import peak_bytes
from tilesight.kernels import cross_entropy, linear_cross_entropy

SHAPES = [(3, 2), (1000, 5), (300, 1025), (64, 8192), (130, 50257), (33, 131072), (4, 262144)]
LAYERS = [(300, 64, 1025), (512, 256, 50257), (33, 129, 131072)]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def reference_loss(x: torch.Tensor, target: torch.Tensor, z_loss: float = 0.0, **arguments: Any) -> torch.Tensor:
    """torch's mean, with a z-loss beside it."""
    counts = target != arguments.get("ignore_index", -100)
    squares = torch.where(counts, torch.logsumexp(x, 1).square(), 0).sum() / counts.sum()
    return F.cross_entropy(x, target, **arguments) + z_loss * squares


@every_dtype
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy(shape: tuple[int, int], dtype: torch.dtype) -> None:
    target = draw_integers(shape[:1], shape[1])
    one = torch.ones((), device=DEVICE, dtype=dtype)
    assert_near_float64(
        lambda x: cross_entropy(x, target), lambda x: F.cross_entropy(x, target), [draw(shape, dtype) * 3], grads=[one]
    )


@every_dtype
@pytest.mark.parametrize("shape", [(300, 1025), (64, 50257), (8, 131072)], ids=str)
def test_smoothed_with_a_z_loss_and_ignored_rows(shape: tuple[int, int], dtype: torch.dtype) -> None:
    target = draw_integers(shape[:1], shape[1])
    target[::3] = -1
    arguments: dict[str, Any] = {"ignore_index": -1, "label_smoothing": 0.1}
    one = torch.ones((), device=DEVICE, dtype=dtype)
    assert_near_float64(
        lambda x: cross_entropy(x, target, **arguments, z_loss=1e-3),
        lambda x: reference_loss(x, target, 1e-3, **arguments),
        [draw(shape, dtype)], grads=[one],
    )  # fmt: skip


@every_dtype
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_other_reductions_and_a_scaled_gradient(reduction: str, dtype: torch.dtype) -> None:
    target = draw_integers((200,), 5003)
    grads = draw((200,) if reduction == "none" else (), dtype, 7)
    assert_near_float64(
        lambda x: cross_entropy(x, target, reduction=reduction) / 16,
        lambda x: F.cross_entropy(x, target, reduction=reduction) / 16,
        [draw((200, 5003), dtype)], grads=[grads],
    )  # fmt: skip


@every_dtype
@pytest.mark.parametrize("shape", LAYERS, ids=str)
def test_linear_cross_entropy(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, features, classes = shape
    target = draw_integers((rows,), classes)
    weight = (draw((classes, features), torch.float32, 1) / features**0.5).to(dtype)
    one = torch.ones((), device=DEVICE, dtype=dtype)
    assert_near_float64(
        lambda x, w, b: linear_cross_entropy(x, w, target, linear_bias=b),
        lambda x, w, b: F.cross_entropy(F.linear(x, w, b), target),
        [draw((rows, features), dtype), weight, draw((classes,), dtype, 2)], grads=[one],
    )  # fmt: skip


def test_the_logits_are_never_all_there() -> None:
    """Besides the gradients a step takes at most 15% of what the unfused one takes, which has the logits twice."""
    rows, features, classes = 8192, 512, 65536
    x, w = draw((rows, features), torch.bfloat16), draw((classes, features), torch.bfloat16, 1) / features**0.5
    target, leaves = draw_integers((rows,), classes), [each.requires_grad_() for each in (x, w)]
    logits, gradients = 2 * rows * classes, 2 * (x.numel() + w.numel())

    def hand() -> Any:
        return torch.autograd.grad(linear_cross_entropy(x, w, target), leaves)

    def unfused() -> Any:
        return torch.autograd.grad(F.cross_entropy(F.linear(x, w), target), leaves)

    for warm_up in (hand, unfused):
        warm_up()
    unfused_bytes = peak_bytes(unfused)
    assert unfused_bytes >= 2 * logits
    assert peak_bytes(hand) - gradients <= 0.15 * unfused_bytes
