"""Cross-entropy of a linear layer's outputs, which are never there all at once.

    logits = x · wᵀ + bias, some rows at a time; their loss and gradient g in place (see `cross_entropy`);
    dx = g · w          dw = Σ over chunks of gᵀ · x          dbias = Σ over rows of g

The products are the device's own (cuBLAS), the rest is one kernel a chunk. Fewest bytes: x, w and target once, dx and
dw once; each chunk's logits cross memory three times on top, and w and dw once a chunk. Memory: one chunk of logits, an
eighth of them or 2²⁸ numbers, whichever is less. dw is summed over the chunks in its own dtype, rounded once a chunk.

The losses' gradients are known in advance for "mean" and "sum" up to one number, so the forward pass leaves dx, dw and
dbias; for "none" backward goes through the chunks again.
"""

from __future__ import annotations

from typing import Any

import torch

from tilesight.kernels.cross_entropy import launch_scale, reduced, require_classes, rows_counted, run_into, scale_once
from tilesight.kernels.operators import define, needs_gradient, require_floats, wide_dtype
from tilesight.kernels.references import torch_when_transformed

CHUNKS = 8
LEAST_ROWS = 256
MOST_LOGITS = 2**28


def rows_of_chunk(rows: int, classes: int) -> int:
    """Rows whose logits are there at once: enough for the products to fill a GPU."""
    return max(LEAST_ROWS, min(-(-rows // CHUNKS), MOST_LOGITS // max(1, classes)))


def launch(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    target: torch.Tensor,
    counted: torch.Tensor | None,
    scale: torch.Tensor | None,
    ignored: int,
    smoothing: float,
    z_loss: float,
    wants: list[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(loss of each row, dx, dw, dbias): three products and one kernel a chunk, fewer where less is wanted.

    Args:
        scale: the gradient of each row's loss; None: all 1, or 1 / counted
        wants: dx, dw, dbias; what is not wanted is empty
    """
    loss, dx, dw, db = outputs(x, w, bias, target, counted, scale, ignored, smoothing, z_loss, wants)
    dw.zero_()
    db.zero_()
    step = rows_of_chunk(x.shape[0], w.shape[0])
    held = x.new_empty(min(step, x.shape[0]), w.shape[0])
    for first in range(0, x.shape[0], step):
        part = slice(first, first + step)
        logits = held[: x[part].shape[0]]
        if bias is None:
            torch.mm(x[part], w.t(), out=logits)
        else:
            torch.addmm(bias, x[part], w.t(), out=logits)
        grad = logits if any(wants) else None
        run_into(logits, target[part], counted, ignored, smoothing, z_loss, loss[part], grad)
        if scale is not None:
            launch_scale(logits, scale[part].contiguous())
        if wants[0]:
            torch.mm(logits, w, out=dx[part])
        if wants[1]:
            dw.addmm_(logits.t(), x[part])
        if wants[2]:
            db += logits.sum(0, dtype=db.dtype)
    return loss, dx, dw, db


def outputs(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    target: torch.Tensor,
    counted: torch.Tensor | None,
    scale: torch.Tensor | None,
    ignored: int,
    smoothing: float,
    z_loss: float,
    wants: list[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the operator returns, not filled; dbias is summed in float32."""
    shapes = (x.shape, w.shape, w.shape[:1])
    wide = wide_dtype(x.dtype)
    dx, dw, db = (x.new_empty(shape if wanted else (0,)) for shape, wanted in zip(shapes, wants, strict=True))
    return x.new_empty(x.shape[0], dtype=wide), dx, dw, db.to(wide)


operator = define(
    "linear_cross_entropy(Tensor x, Tensor w, Tensor? bias, Tensor target, Tensor? counted, Tensor? scale, int ignored,"
    " float smoothing, float z_loss, bool[] wants) -> (Tensor, Tensor, Tensor, Tensor)",
    launch,
    outputs,
)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        w: torch.Tensor,
        bias: torch.Tensor | None,
        target: torch.Tensor,
        counted: torch.Tensor | None,
        numbers: tuple[int, float, float],
        reduction: str,
    ) -> torch.Tensor:
        ctx.wants = list(ctx.needs_input_grad[:3])
        ctx.numbers, ctx.reduction = numbers, reduction
        wants = [False] * 3 if reduction == "none" else ctx.wants
        loss, *held = operator(x, w, bias, target, counted, None, *numbers, wants)
        ctx.save_for_backward(*((x, w, bias, target) if reduction == "none" else held))
        return reduced(loss, counted, reduction, x.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        scale = grad_outputs[0]
        if ctx.reduction == "none":
            x, w, bias, target = ctx.saved_tensors
            _, *found = operator(x, w, bias, target, None, scale, *ctx.numbers, ctx.wants)
        elif torch.compiler.is_compiling():
            found = [each * scale for each in ctx.saved_tensors]
        else:
            found = ctx.saved_tensors
            scale_once(ctx, [each for each, wanted in zip(found, ctx.wants, strict=True) if wanted], scale)
        dx, dw, db = (each if wanted else None for each, wanted in zip(found, ctx.wants, strict=True))
        return dx, dw, None if db is None else db.to(scale.dtype), None, None, None, None


@torch_when_transformed
def linear_cross_entropy(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    *,
    linear_bias: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> torch.Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target) without the logits; with gradients.

    Arguments as `torch.nn.functional.linear_cross_entropy` of torch 2.13, with a z-loss for its chunking options. The
    gradients are computed by the forward pass, as `cross_entropy` says, but for reduction "none".

    Args:
        input: [..., features] float16, bfloat16, float32 or float64
        linear_weight: [classes, features], of the input's dtype
        target: int64, the input's shape without the features; class indices
        linear_bias: [classes], of the input's dtype
        weight: of torch's signature, None only
        reduction, label_smoothing, z_loss: as `cross_entropy`
        ignore_index: as there; None: −100
    Returns: a number, or the target's shape; the input's dtype
    Raises: as `cross_entropy`; RuntimeError: where shapes or dtypes do not fit
    """
    if weight is not None:
        raise RuntimeError("linear_cross_entropy does not support weight")
    require_floats("linear_cross_entropy", input, linear_weight, linear_bias)
    _require_linear(input, linear_weight, linear_bias)
    classes = linear_weight.shape[0]
    rows = input.reshape(-1, input.shape[-1]) if input.numel() else input.reshape(target.numel(), input.shape[-1])
    if target.shape != input.shape[:-1]:
        wanted = list(input.shape[:-1])
        raise ValueError(
            f"expected a target of shape {wanted} for an input of {list(input.shape)}, got {list(target.shape)}"
        )
    targets = target.reshape(-1)
    require_classes(rows[:, :1].expand(-1, classes), targets, reduction, label_smoothing)
    ignored = -100 if ignore_index is None else ignore_index
    counted = rows_counted(targets, ignored, reduction)
    numbers = (ignored, float(label_smoothing), float(z_loss))
    if needs_gradient(input, linear_weight, linear_bias):
        loss = _LinearCrossEntropy.apply(rows, linear_weight, linear_bias, targets, counted, numbers, reduction)
    else:
        found = operator(rows, linear_weight, linear_bias, targets, counted, None, *numbers, [False] * 3)[0]
        loss = reduced(found, counted, reduction, rows.dtype)
    return loss.reshape(target.shape) if reduction == "none" else loss


def _require_linear(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None) -> None:
    got = f"got input {list(x.shape)}, linear_weight {list(w.shape)}"
    if x.ndim == 0 or w.ndim != 2 or x.shape[-1] != w.shape[1]:
        raise RuntimeError(f"linear_cross_entropy: linear_weight must be [classes, features of the input], {got}")
    if bias is not None and tuple(bias.shape) != tuple(w.shape[:1]):
        raise RuntimeError(f"linear_cross_entropy: linear_bias must be [classes], {got}, bias {list(bias.shape)}")
    dtypes = {each.dtype for each in (x, w, bias) if each is not None}
    if len(dtypes) > 1:
        raise RuntimeError(f"linear_cross_entropy: expected one dtype, got {sorted(map(str, dtypes))}")
