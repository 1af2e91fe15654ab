"""Cross-entropy of logits and class indices, with its gradient in the same pass.

    lse = log(sum(exp(x)))          loss = lse − (1 − s) · x[target] − s · mean(x) + z · lse²
    dx = exp(x − lse) · (1 + 2 · z · lse) − s / classes − (1 − s where it is the target)

with s the label smoothing and z the weight of the z-loss. Rows whose target is the ignored index have loss 0 and
gradient 0, and are not read.

Fewest bytes: forward x once; with a gradient x once and dx once, and nothing more backward. The row stays on chip
between its sum and its gradient, shared by programs where it is long, so the gradient is written by the forward pass;
backward multiplies it in place by the gradient of the loss, and does not touch it where that is 1. The caller's logits
are only read. Computed in float32, in float64 for float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilesight.kernels.cross_entropy_kernels import (
    WALK_WARPS,
    WALKED,
    cross_entropy_parts,
    cross_entropy_rows,
    cross_entropy_walk,
    scale_lines,
)
from tilesight.kernels.elements import NUM_WARPS, plan_spans
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, in_autocast_dtype, needs_gradient, require_floats, wide_dtype
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_plan import FEW_PROGRAMS, as_rows, plan_rows
from tilesight.kernels.row_split import words_for


def launch_forward(
    x: torch.Tensor,
    target: torch.Tensor,
    counted: torch.Tensor | None,
    ignored: int,
    smoothing: float,
    z_loss: float,
    grad: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss of each row, gradient), in one launch; the gradient is empty where it is not wanted."""
    loss, dx = outputs(x, target, counted, ignored, smoothing, z_loss, grad)
    run_into(x, target, counted, ignored, smoothing, z_loss, loss, dx if grad else None)
    return loss, dx


def run_into(
    x: torch.Tensor,
    target: torch.Tensor,
    counted: torch.Tensor | None,
    ignored: int,
    smoothing: float,
    z_loss: float,
    loss: torch.Tensor,
    dx: torch.Tensor | None,
) -> None:
    """Fill the loss of each row and the gradient, which may be x itself.

    Args:
        x: [rows, classes]; target: int64 [rows]
        counted: by how many rows the gradient is divided, one number on the device; None: by 1
        loss: float32 [rows], float64 for float64
        dx: [rows, classes], its last axis dense; None where no gradient is wanted
    Raises: IndexError: for a target that is no class, on a CPU; on a GPU, which would have to be waited for, its row's
        loss and gradient are NaN
    """
    rows, columns = x.shape
    if not x.is_cuda:
        _require_classes(target, ignored, columns)
    if x.numel() == 0:
        loss.zero_()
        return
    source, targets = as_rows(x), target.contiguous()
    plan = plan_rows(rows, columns, is_split=x.dtype != torch.float64)
    into = source if dx is None else dx
    tensors = (source, targets, targets if counted is None else counted, loss, into)
    numbers = (columns, source.stride(0), into.stride(0), ignored)
    constants = (smoothing, z_loss, counted is not None, dx is not None)
    if dx is None and plan.parts > 1 and rows >= FEW_PROGRAMS:
        launcher(cross_entropy_walk, (rows,))(
            source, targets, loss, columns, source.stride(0), ignored, WALKED, smoothing, z_loss, num_warps=WALK_WARPS
        )
    elif plan.parts == 1:
        launcher(cross_entropy_rows, plan.grid(rows))(
            *tensors, rows, *numbers, plan.rows, plan.block, *constants, num_warps=plan.num_warps
        )
    else:
        pairs = x.itemsize == 2
        words = words_for(x, rows, plan.parts if pairs else 2 * plan.parts, are_pairs=pairs)
        plain = words_for(x, rows, plan.parts) if smoothing else words
        launcher(cross_entropy_parts, plan.grid(rows))(
            *tensors, words, plain, *numbers, plan.block, plan.parts, *constants, pairs, num_warps=plan.num_warps
        )


def _require_classes(target: torch.Tensor, ignored: int, classes: int) -> None:
    wrong = target[((target < 0) | (target >= classes)) & (target != ignored)]
    if wrong.numel():
        raise IndexError(f"Target {int(wrong[0])} is out of bounds: there are {classes} classes, {ignored} is ignored")


def outputs(
    x: torch.Tensor,
    target: torch.Tensor,
    counted: torch.Tensor | None,
    ignored: int,
    smoothing: float,
    z_loss: float,
    grad: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the forward operator returns, not filled."""
    loss = x.new_empty(x.shape[0], dtype=wide_dtype(x.dtype))
    return loss, torch.empty_like(x, memory_format=torch.contiguous_format) if grad else x.new_empty(0)


def launch_scale(dx: torch.Tensor, scale: torch.Tensor) -> None:
    """Multiply a dense gradient by one number, or each of its rows by its own, in place and in one launch."""
    if dx.numel() == 0:
        return
    lines = dx.reshape(1, -1) if scale.ndim == 0 else dx.reshape(scale.numel(), -1)
    grid, columns, spans, block = plan_spans(lines)
    launcher(scale_lines, grid)(
        lines, scale, columns, spans, scale.stride(0) if scale.ndim else 0, block, num_warps=NUM_WARPS
    )


forward_operator = define(
    "cross_entropy_forward(Tensor x, Tensor target, Tensor? counted, int ignored, float smoothing, float z_loss,"
    " bool grad) -> (Tensor, Tensor)",
    launch_forward,
    outputs,
)
scale_operator = define("scale_lines(Tensor(a!) dx, Tensor scale) -> ()", launch_scale, lambda dx, scale: None)


def scale_once(ctx: Any, held: Sequence[torch.Tensor], scale: torch.Tensor) -> None:
    """Multiply gradients that the forward pass left, by the gradient of the loss, and remember by what.

    In place, behind autograd's back: they are nobody else's. A second backward pass through the same graph finds them
    as they were only if the first one multiplied by 1.

    Raises: RuntimeError: in a second pass after one that changed them; where second derivatives are wanted
    """
    if torch.is_grad_enabled():
        raise RuntimeError("cross_entropy has no second derivatives: backward was called with create_graph=True")
    before = getattr(ctx, "scale", None)
    if before is not None and not bool((before == 1).all()):
        raise RuntimeError(
            "backward through cross_entropy a second time: its gradient was computed by the forward pass, and the"
            " first backward pass scaled it in place; call cross_entropy again"
        )
    ctx.scale = scale
    for each in held:
        scale_operator(each.data, scale)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float, z_loss: float, reduction: str
    ) -> torch.Tensor:
        loss, dx = _loss_and_gradient(x, target, ignored, smoothing, z_loss, reduction, True)
        ctx.save_for_backward(dx)
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, None, None, None, None, None]:
        (dx,) = ctx.saved_tensors
        scale = grad_outputs[0]
        if torch.compiler.is_compiling():
            dx = dx * (scale.unsqueeze(-1) if scale.ndim else scale)
        else:
            scale_once(ctx, [dx], scale)
        return dx, None, None, None, None, None


def _loss_and_gradient(
    x: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float, z_loss: float, reduction: str, grad: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """(the loss in x's dtype, the gradient of their sum or mean)."""
    counted = rows_counted(target, ignored, reduction)
    loss, dx = forward_operator(x, target, counted, ignored, smoothing, z_loss, grad)
    return reduced(loss, counted, reduction, x.dtype), dx


def rows_counted(target: torch.Tensor, ignored: int, reduction: str) -> torch.Tensor | None:
    """How many rows a mean is over, one number on the device; None for another reduction."""
    return (target != ignored).sum() if reduction == "mean" else None


def reduced(loss: torch.Tensor, counted: torch.Tensor | None, reduction: str, dtype: torch.dtype) -> torch.Tensor:
    """The sum of the rows' losses, over `counted` where it is given; for "none" the losses; in `dtype`.

    Never an alias of `loss`: for a Function that returns one, torch.compile of torch 2.11 gives wrong gradients
    (pytorch#180642).
    """
    if reduction != "none":
        loss = loss.sum() if counted is None else loss.sum() / counted
    return loss if loss.dtype == dtype else loss.to(dtype)


@remembered
@torch_when_transformed
def cross_entropy(
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> torch.Tensor:
    """−log softmax(input)[target], as `torch.nn.functional.cross_entropy`; with a gradient of the input.

    The gradient is computed by the forward pass and scaled in place by the first backward pass: a second one through
    the same graph is refused, unless the first one's gradient of the loss was 1.

    Args:
        input: [classes], [rows, classes] or [rows, classes, ...] float16, bfloat16, float32 or float64; under autocast
            on CUDA float32; never written
        target: int64, the input's shape without the classes; class indices
        weight, size_average, reduce: of torch's signature, None only
        ignore_index: a target whose row has no loss; its gradient is 0 even where the logits are NaN
        reduction: "mean" over the rows that are not ignored, "sum" or "none"
        label_smoothing: from 0 to 1
        z_loss: this much of logsumexp(input)² is added to the loss of each row; torch has none
    Returns: a number, or the target's shape; the input's dtype
    Raises:
        IndexError: for a target that is no class, on a CPU; on a GPU the row's loss and gradient are NaN
        RuntimeError: for class probabilities, weights, a smoothing out of range
        TypeError: for an input that is not of a floating-point dtype
        ValueError: for shapes that do not fit, an unknown reduction, more classes than `row_plan.MOST_COLUMNS`
    """
    if weight is not None or size_average is not None or reduce is not None:
        raise RuntimeError("cross_entropy supports neither weight nor the deprecated size_average and reduce")
    x = in_autocast_dtype(input)
    require_classes(x, target, reduction, label_smoothing)
    rows = x if x.ndim < 3 else x.movedim(1, -1)
    rows = rows.reshape(-1, rows.shape[-1]) if rows.numel() else rows.reshape(target.numel(), rows.shape[-1])
    numbers = (ignore_index, float(label_smoothing), float(z_loss), reduction)
    if needs_gradient(x):
        loss = _CrossEntropy.apply(rows, target.reshape(-1), *numbers)
    else:
        loss, _ = _loss_and_gradient(rows, target.reshape(-1), *numbers, False)
    return loss.reshape(target.shape) if reduction == "none" else loss


def require_classes(x: torch.Tensor, target: torch.Tensor, reduction: str, label_smoothing: float) -> None:
    """Raises: as `cross_entropy`, for all that shows without looking at the targets"""
    require_floats("cross_entropy", x)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction!r} is not a valid value for reduction; it is 'mean', 'sum' or 'none'")
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target.dtype != torch.int64:
        raise RuntimeError(
            f"expected class indices of dtype torch.int64 (probabilities are not supported), got {target.dtype}"
        )
    wanted = x.shape[:1] + x.shape[2:] if x.ndim > 1 else x.shape[1:]
    if x.ndim == 0 or target.shape != wanted:
        raise ValueError(
            f"expected a target of shape {list(wanted)} for an input of {list(x.shape)}, got {list(target.shape)}"
        )
    if target.device != x.device:
        raise RuntimeError(f"expected input and target on one device, got {x.device} and {target.device}")
