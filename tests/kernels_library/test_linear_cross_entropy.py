"""Linear cross-entropy of the hand-written library, on the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.kernels_library.against_float64 import (
    assert_compiled_whole,
    assert_near_float64,
    assert_no_finding,
    draw,
    dynamo_instantiates_functions,
)
from tilesight import Case
from tilesight.kernels import linear_cross_entropy
from tilesight.kernels.linear_cross_entropy import rows_of_chunk

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
REDUCTIONS = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def targets(rows: int, classes: int) -> torch.Tensor:
    found = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(3))
    found[:1] = -100
    return found


def inputs_of(rows: int, classes: int, features: int, dtype: torch.dtype) -> list[torch.Tensor]:
    shapes: Sequence[tuple[int, ...]] = ((rows, features), (classes, features), (classes,))
    return [draw(shape, dtype, seed) for seed, shape in enumerate(shapes)]


def assert_right(inputs: Sequence[torch.Tensor], target: torch.Tensor, **arguments: Any) -> None:
    """Outputs and all three gradients."""

    def reference(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.linear(x, w, bias), target, **arguments)

    assert_near_float64(
        lambda x, w, bias: linear_cross_entropy(x, w, target, linear_bias=bias, **arguments), reference, inputs
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", [(5, 7, 3), (300, 11, 4), (600, 33, 8)], ids=str)
def test_numbers_and_gradients(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Up to three chunks of rows, the last one shorter."""
    assert rows_of_chunk(600, 33) == 256
    assert_right(inputs_of(*sizes, dtype), targets(*sizes[:2]))


@REDUCTIONS
def test_reductions_smoothing_and_the_ignored_index(reduction: str) -> None:
    inputs, target = inputs_of(270, 9, 4, torch.float32), targets(270, 9)
    assert_right(inputs, target, reduction=reduction, label_smoothing=0.2)
    assert_right(inputs, target.clamp(min=0), reduction=reduction, ignore_index=2)


def test_without_bias_with_more_axes_and_a_z_loss() -> None:
    x, w = draw((2, 3, 5), torch.float32), draw((7, 5), torch.float32, 1)
    target = targets(6, 7).reshape(2, 3)

    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        logits = F.linear(x, w).reshape(-1, 7)
        squares = logits.logsumexp(1).square()[target.reshape(-1) != -100]
        return F.cross_entropy(logits, target.reshape(-1)) + 0.1 * squares.mean()

    assert_near_float64(lambda x, w: linear_cross_entropy(x, w, target, z_loss=0.1), reference, [x, w])
    assert linear_cross_entropy(x, w, target, reduction="none").shape == (2, 3)


def test_only_what_is_wanted() -> None:
    x, w, bias = inputs_of(5, 7, 3, torch.float32)
    loss = linear_cross_entropy(x.requires_grad_(), w, targets(5, 7))
    assert torch.autograd.grad(loss, x)[0].shape == x.shape
    (dw,) = torch.autograd.grad(linear_cross_entropy(x.detach(), w.requires_grad_(), targets(5, 7)), w)
    wanted = torch.autograd.grad(F.cross_entropy(F.linear(x.detach(), w), targets(5, 7)), w)[0]
    torch.testing.assert_close(dw, wanted)
    loss = linear_cross_entropy(x, w, targets(5, 7), linear_bias=bias)
    (2 * loss).backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_chunks_are_never_all_of_the_logits() -> None:
    assert rows_of_chunk(8192, 131_072) == 1024
    assert rows_of_chunk(1_000_000, 131_072) == 2048
    assert rows_of_chunk(100, 131_072) == 256


def test_empty_all_ignored_and_nan() -> None:
    w = draw((7, 3), torch.float32)
    assert linear_cross_entropy(torch.zeros(0, 3), w, targets(0, 7)).isnan()
    assert linear_cross_entropy(torch.zeros(0, 3), w, targets(0, 7), reduction="sum") == 0
    x = draw((2, 3), torch.float32)
    x[0, 0] = float("nan")
    assert linear_cross_entropy(x, w, torch.full((2,), -100)).isnan()
    losses = linear_cross_entropy(x, w, torch.tensor([1, 2]), reduction="none")
    assert losses.isnan().tolist() == [True, False]


@REDUCTIONS
def test_gradcheck(reduction: str) -> None:
    inputs = [each.requires_grad_() for each in inputs_of(3, 4, 2, torch.float64)]

    def total(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return linear_cross_entropy(x, w, targets(3, 4), linear_bias=bias, reduction=reduction, label_smoothing=0.1)

    assert torch.autograd.gradcheck(total, inputs)


def test_the_operator_passes_opcheck() -> None:
    x, w, bias = inputs_of(4, 6, 3, torch.float32)
    operator = torch.ops.tilesight.linear_cross_entropy.default
    numbers = (-100, 0.1, 0.0)
    torch.library.opcheck(operator, (x, w, bias, targets(4, 6), torch.tensor(3), None, *numbers, [True, True, True]))
    torch.library.opcheck(operator, (x, w, None, targets(4, 6), None, torch.ones(4), *numbers, [True, False, False]))


@dynamo_instantiates_functions
@REDUCTIONS
def test_compiled_whole(reduction: str) -> None:
    target = targets(4, 6)
    assert_compiled_whole(
        lambda x, w, b: linear_cross_entropy(x, w, target, linear_bias=b, reduction=reduction),
        inputs_of(4, 6, 3, torch.float32),
    )


def test_bad_input() -> None:
    x, w, target = torch.zeros(2, 3), torch.zeros(7, 3), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"must be \[classes, features of the input\], got input \[2, 3\]"):
        linear_cross_entropy(x, w.t(), target)
    with pytest.raises(RuntimeError, match=r"linear_bias must be \[classes\]"):
        linear_cross_entropy(x, w, target, linear_bias=torch.zeros(3))
    with pytest.raises(RuntimeError, match="expected one dtype"):
        linear_cross_entropy(x, w.bfloat16(), target)
    with pytest.raises(RuntimeError, match="does not support weight"):
        linear_cross_entropy(x, w, target, weight=torch.ones(7))
    with pytest.raises(ValueError, match=r"expected a target of shape \[2\] for an input of \[2, 3\], got \[3\]"):
        linear_cross_entropy(x, w, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        linear_cross_entropy(x, w, target + 7)
    with pytest.raises(TypeError, match=r"linear_cross_entropy takes .* not torch\.int32"):
        linear_cross_entropy(x.int(), w.int(), target)


def test_no_finding() -> None:
    """Beside the gradient of another branch: where all classes are alike, dx alone is 0 but for rounding."""

    def hand(x: torch.Tensor, w: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [each.detach().requires_grad_() for each in (x, w)]
            return torch.autograd.grad(
                linear_cross_entropy(leaves[0], leaves[1], target) + leaves[0].square().sum() / 2, leaves
            )

    def eager(x: torch.Tensor, w: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [each.detach().requires_grad_() for each in (x, w)]
            loss = F.cross_entropy(F.linear(leaves[0], leaves[1]), target)
            return torch.autograd.grad(loss + leaves[0].square().sum() / 2, leaves)

    given = *inputs_of(5, 70, 8, torch.bfloat16)[:2], targets(5, 70)
    assert_no_finding(Case(eager=eager, hand=hand, inputs=lambda: given))
