"""Cross-entropy of the hand-written library, on the engine."""

from __future__ import annotations

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
from tilesight.capture.numerics import judge
from tilesight.kernels import cross_entropy, references
from tilesight.kernels.row_plan import MOST_PART, plan_rows

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SHARED = 2500
"""Classes of a few rows, each of which several programs share."""
REDUCTIONS = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


def targets(rows: int, classes: int) -> torch.Tensor:
    return torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(3))


def reference_loss(x: torch.Tensor, target: torch.Tensor, z_loss: float = 0.0, **arguments: Any) -> torch.Tensor:
    """torch's, with a z-loss beside it."""
    loss = F.cross_entropy(x, target, **arguments)
    counts = target != arguments.get("ignore_index", -100)
    squares = torch.where(counts, torch.logsumexp(x, 1 if x.ndim > 1 else 0).square(), 0)
    reduction = arguments.get("reduction", "mean")
    wanted = squares if reduction == "none" else squares.sum() / (counts.sum() if reduction == "mean" else 1)
    return loss + z_loss * wanted if z_loss else loss


def assert_right(x: torch.Tensor, target: torch.Tensor, **arguments: Any) -> None:
    grads = None if x.numel() else [torch.ones_like(target if arguments.get("reduction") == "none" else x.sum())]
    assert_near_float64(
        lambda t: cross_entropy(t, target, **arguments), lambda t: reference_loss(t, target, **arguments), [x], grads
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (5, 2), (7, 1009), (40, 130), (3, SHARED)], ids=str)
def test_numbers_and_gradients(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, target = 3 * draw(shape, dtype), targets(*shape)
    assert_right(x, target)
    target[1] = -100
    assert_right(x, target, reduction="sum", label_smoothing=0.1, z_loss=1e-3)


def test_few_long_rows_are_shared() -> None:
    assert plan_rows(3, SHARED).parts == 4


@pytest.mark.parametrize("classes", [40, SHARED])
@REDUCTIONS
def test_reductions_and_an_ignored_index(reduction: str, classes: int) -> None:
    x, target = draw((5, classes), torch.float32), targets(5, classes)
    target[1:3] = torch.tensor([7, 7])
    for arguments in ({}, {"label_smoothing": 1.0}, {"label_smoothing": 0.3, "z_loss": 0.01}, {"z_loss": 0.1}):
        assert_right(x, target, reduction=reduction, ignore_index=7, **arguments)
    with torch.no_grad():
        torch.testing.assert_close(
            cross_entropy(x, target, ignore_index=7, reduction=reduction),
            F.cross_entropy(x, target, ignore_index=7, reduction=reduction),
        )


def test_one_row_more_axes_and_strides() -> None:
    assert_right(draw((9,), torch.float32), torch.tensor(4))
    x, target = draw((2, 7, 3, 2), torch.float32), targets(12, 7).reshape(2, 3, 2)
    for reduction in ("mean", "none"):
        assert_right(x, target, reduction=reduction)
    wide = draw((6, 100), torch.float32)
    for view in (wide[:, :50], wide[::2], wide[:, ::2], wide[:1].expand(4, -1)):
        target = targets(*view.shape)
        torch.testing.assert_close(cross_entropy(view, target), F.cross_entropy(view, target))


def test_empty_and_all_ignored() -> None:
    """The mean of no rows is NaN, their sum 0, and the gradient 0, as in torch."""
    x, target = torch.zeros(0, 5, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    assert cross_entropy(x, target).isnan() and cross_entropy(x, target, reduction="sum") == 0
    (grad,) = torch.autograd.grad(cross_entropy(x, target), x)
    assert grad.shape == (0, 5) and cross_entropy(x, target, reduction="none").shape == (0,)
    x, target = draw((2, 5), torch.float32).requires_grad_(), torch.full((2,), -100)
    loss = cross_entropy(x, target)
    assert loss.isnan() and torch.equal(torch.autograd.grad(loss, x)[0], torch.zeros(2, 5))


@pytest.mark.parametrize("classes", [300, SHARED])
def test_masked_rows_huge_logits_and_nan(classes: int) -> None:
    x, target = draw((7, classes), torch.float32), targets(7, classes)
    x[0] = float("-inf")
    x[1] = x[1].index_fill(0, torch.arange(3, classes), float("-inf"))
    target[1] = 1
    x[2] *= 1e4
    x[3, 7] = float("nan")
    x[4, classes // 2] = float("inf")
    x[5, target[5]] = float("-inf")
    leaves = x.clone().requires_grad_(), x.clone().requires_grad_()
    losses = cross_entropy(leaves[0], target, reduction="none"), F.cross_entropy(leaves[1], target, reduction="none")
    torch.testing.assert_close(*losses, equal_nan=True)
    got, wanted = (torch.autograd.grad(y.sum(), leaf)[0] for y, leaf in zip(losses, leaves, strict=True))
    torch.testing.assert_close(got, wanted, equal_nan=True)
    ignored = cross_entropy(leaves[0], torch.full_like(target, -100), reduction="sum")
    assert ignored == 0 and torch.equal(torch.autograd.grad(ignored, leaves[0])[0], torch.zeros_like(x))


@pytest.mark.parametrize("classes", [300, SHARED])
def test_the_callers_logits_are_only_read(classes: int) -> None:
    x, target = draw((3, classes), torch.float32).requires_grad_(), targets(3, classes)
    before = x.detach().clone()
    (2 * cross_entropy(x, target)).backward()
    assert torch.equal(x, before) and x.grad is not None and x.grad.data_ptr() != x.data_ptr()


def test_a_second_backward_pass() -> None:
    """Allowed where the first one left the gradient as it was; refused, not wrong, where it did not."""
    x, target = draw((3, 9), torch.float32).requires_grad_(), targets(3, 9)
    loss = cross_entropy(x, target)
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    doubled = torch.autograd.grad(loss, x, torch.tensor(2.0), retain_graph=True)[0]
    torch.testing.assert_close(doubled, 2 * torch.autograd.grad(F.cross_entropy(x, target), x)[0])
    with pytest.raises(RuntimeError, match="backward through cross_entropy a second time"):
        torch.autograd.grad(loss, x)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(cross_entropy(x, target), x, create_graph=True)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradcheck(reduction: str) -> None:
    x, target = draw((3, 5), torch.float64).requires_grad_(), torch.tensor([1, -100, 4])
    arguments: dict[str, Any] = {"reduction": reduction, "label_smoothing": 0.1, "z_loss": 0.01}
    assert torch.autograd.gradcheck(lambda t: cross_entropy(t, target, **arguments), (x,))


def test_the_operators_pass_opcheck() -> None:
    x, target = draw((3, 20), torch.float32), targets(3, 20)
    operator = torch.ops.tilesight.cross_entropy_forward.default
    torch.library.opcheck(operator, (x, target, torch.tensor(3), -100, 0.1, 0.0, True))
    torch.library.opcheck(operator, (x, target, None, -100, 0.0, 0.1, False))
    torch.library.opcheck(torch.ops.tilesight.scale_lines.default, (x, torch.tensor(2.0)))
    torch.library.opcheck(torch.ops.tilesight.scale_lines.default, (x.clone(), torch.tensor([1.0, 2.0, 3.0])))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    target = torch.tensor([1, -100, 4])
    assert_compiled_whole(lambda x: cross_entropy(x, target), [draw((3, 9), torch.float32)])
    assert_compiled_whole(lambda x: cross_entropy(x, target, reduction="none"), [draw((3, 9), torch.float32)])


def test_bad_input() -> None:
    x, target = torch.zeros(2, 8), torch.zeros(2, dtype=torch.int64)
    for wrong in (8, -1):
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            cross_entropy(x, target + wrong)
    with pytest.raises(ValueError, match=r"expected a target of shape \[2\] for an input of \[2, 8\], got \[3\]"):
        cross_entropy(x, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match=r"probabilities are not supported\), got torch\.float32"):
        cross_entropy(x, x)
    with pytest.raises(RuntimeError, match="neither weight nor"):
        cross_entropy(x, target, torch.ones(8))
    with pytest.raises(RuntimeError, match=r"between 0\.0 and 1\.0\. Got: 1\.5"):
        cross_entropy(x, target, label_smoothing=1.5)
    with pytest.raises(ValueError, match="'all' is not a valid value for reduction"):
        cross_entropy(x, target, reduction="all")
    with pytest.raises(TypeError, match=r"cross_entropy takes .* not torch\.int32"):
        cross_entropy(x.int(), target)
    with pytest.raises(ValueError, match=f"at most {MOST_PART:,} are supported"):
        cross_entropy(torch.zeros(1, MOST_PART + 1, dtype=torch.float64), target[:1])


def hand(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        loss = cross_entropy(leaf, target, label_smoothing=0.1)
        return loss.detach(), torch.autograd.grad(loss, leaf, torch.full_like(loss, 0.5))[0]


def eager(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        loss = F.cross_entropy(leaf, target, label_smoothing=0.1)
        return loss.detach(), torch.autograd.grad(loss, leaf, torch.full_like(loss, 0.5))[0]


@pytest.mark.parametrize("classes", [300, 1100])
def test_no_finding(classes: int) -> None:
    assert_no_finding(
        Case(eager=eager, hand=hand, inputs=lambda: (draw((3, classes), torch.bfloat16), targets(3, classes)))
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_the_loss_alone_of_many_long_rows(dtype: torch.dtype) -> None:
    """Rows that are walked through: their sums start from logits far below 0, and from none at all."""
    x = draw((140, 17_000), dtype) * 3
    x[1] -= 10_000
    x[2, 1:] = float("-inf")
    x[3] = float("-inf")
    x[4, 9000] = float("nan")
    target = torch.zeros(140, dtype=torch.int64)
    target[5] = -100
    for z_loss in (0.0, 0.1):
        loss = cross_entropy(x, target, reduction="none", z_loss=z_loss)
        wanted = references.cross_entropy(x.double(), target, reduction="none", z_loss=z_loss)
        verdict = judge(loss, [wanted])
        assert verdict.ok, verdict
    finite = draw((140, 17_000), dtype, 4)
    smooth = cross_entropy(finite, target, reduction="none", label_smoothing=0.1)
    assert judge(smooth, [F.cross_entropy(finite.double(), target, reduction="none", label_smoothing=0.1)]).ok
