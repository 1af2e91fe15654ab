"""Addition, and addition with a ReLU behind it.

    z = x + alpha · y          z = max(x + y, 0), whose gradient is dz where z > 0

Fewest bytes: x and y once, z once; the gradient of add_relu reads dz and z once and writes once. 16-bit numbers are
added in float32 and rounded once. Tensors of other shapes than the result's are expanded, and copied where no row
stride says how.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.elements import NUM_WARPS, as_lines, plan_spans, span_of
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import FLOATS, define, like_first, needs_gradient
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_split import HINT

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@triton.jit
def added_elements(
    x_ptr, y_ptr, z_ptr, columns, spans, x_stride, y_stride, alpha,
    BLOCK: tl.constexpr, SCALES: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """A span of z; a ReLU lets NaN through."""
    line, first, lane, mask = span_of(columns, spans, BLOCK)  # pyright: ignore[reportGeneralTypeIssues]
    x = tl.load(x_ptr + line * x_stride + first + lane, mask, other=0, eviction_policy=HINT)
    y = tl.load(y_ptr + line * y_stride + first + lane, mask, other=0, eviction_policy=HINT)
    if z_ptr.dtype.element_ty.primitive_bitwidth == 16 and z_ptr.dtype.element_ty.is_floating():
        x = x.to(tl.float32)
        y = y.to(tl.float32)
    z = x + alpha * y if SCALES else x + y
    if RELU:
        z = tl.where(z < 0, tl.zeros_like(z), z)
    tl.store(z_ptr + line * columns + first + lane, z.to(z_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def passed_elements(dz_ptr, z_ptr, dx_ptr, columns, spans, dz_stride, z_stride, BLOCK: tl.constexpr):
    """A span of the gradient behind a ReLU."""
    line, first, lane, mask = span_of(columns, spans, BLOCK)  # pyright: ignore[reportGeneralTypeIssues]
    dz = tl.load(dz_ptr + line * dz_stride + first + lane, mask, other=0, eviction_policy=HINT)
    z = tl.load(z_ptr + line * z_stride + first + lane, mask, other=0, eviction_policy=HINT)
    dx = tl.where(z <= 0, tl.zeros_like(dz), dz)
    tl.store(dx_ptr + line * columns + first + lane, dx, mask, eviction_policy=HINT)


def launch_forward(x: torch.Tensor, y: torch.Tensor, alpha: float, relu: bool) -> torch.Tensor:
    """z, in one launch; x and y of one shape and dtype."""
    z = like_first(x)
    if x.numel() == 0:
        return z
    xs, ys, _ = lines = as_lines(x, y, z)
    grid, columns, spans, block = plan_spans(xs)
    flags = (alpha != 1, relu)
    launcher(added_elements, grid)(
        *lines, columns, spans, xs.stride(0), ys.stride(0), alpha, block, *flags, num_warps=NUM_WARPS
    )
    return z


def launch_backward(dz: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """The gradient behind a ReLU, in one launch."""
    dx = like_first(z)
    if z.numel() == 0:
        return dx
    lines = as_lines(dz, z, dx)
    grid, columns, spans, block = plan_spans(lines[0])
    launcher(passed_elements, grid)(
        *lines, columns, spans, lines[0].stride(0), lines[1].stride(0), block, num_warps=NUM_WARPS
    )
    return dx


forward_operator = define(
    "add_forward(Tensor x, Tensor y, float alpha, bool relu) -> Tensor", launch_forward, like_first
)
backward_operator = define("add_relu_backward(Tensor dz, Tensor z) -> Tensor", launch_backward, like_first)


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, alpha: float) -> torch.Tensor:
        ctx.alpha = alpha
        return forward_operator(x, y, alpha, False)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, torch.Tensor, None]:
        dz = grad_outputs[0]
        return dz, dz if ctx.alpha == 1 else dz * ctx.alpha, None


class _AddRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = forward_operator(x, y, 1.0, True)
        ctx.save_for_backward(z)
        return z

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        dx = backward_operator(grad_outputs[0], *ctx.saved_tensors)
        return dx, dx


@remembered
@torch_when_transformed
def add(input: torch.Tensor, other: torch.Tensor | float, *, alpha: float = 1) -> torch.Tensor:
    """input + alpha · other, as `torch.add`; with gradients.

    Args:
        input: of a floating-point or an integer dtype
        other: broadcast and converted with the input as torch does; a number too
    Returns: the broadcast shape, the common dtype, contiguous
    Raises:
        RuntimeError: for shapes that do not broadcast, or a fractional alpha for integers
        TypeError: for bool and complex dtypes
    """
    x, y = _alike("add", input, other)
    if not x.is_floating_point() and isinstance(alpha, float):
        raise RuntimeError(f"add: for integers alpha must not be a floating-point number, got {alpha}")
    if alpha != 1 and x.dtype not in FLOATS[:3]:
        y, alpha = y * alpha, 1
    return _Add.apply(x, y, float(alpha)) if needs_gradient(x, y) else forward_operator(x, y, float(alpha), False)


@remembered
@torch_when_transformed
def add_relu(input: torch.Tensor, other: torch.Tensor | float) -> torch.Tensor:
    """relu(input + other) in one pass, NaN stays NaN; with gradients. Arguments and errors as `add`."""
    x, y = _alike("add_relu", input, other)
    return _AddRelu.apply(x, y) if needs_gradient(x, y) else forward_operator(x, y, 1.0, True)


def _alike(name: str, input: torch.Tensor, other: torch.Tensor | float) -> tuple[torch.Tensor, torch.Tensor]:
    """Both in the shape and the dtype of the result."""
    if isinstance(other, torch.Tensor) and other.shape == input.shape and other.dtype == input.dtype:
        x, y = input, other
    else:
        dtype = _common_dtype(input, other)
        second = other if isinstance(other, torch.Tensor) else torch.full((), other, dtype=dtype, device=input.device)
        x, y = torch.broadcast_tensors(input.to(dtype), second.to(dtype))
    if x.dtype not in FLOATS + INTEGERS:
        raise TypeError(f"{name} takes floating-point and integer dtypes, not {x.dtype}")
    return x, y


def _common_dtype(input: torch.Tensor, other: torch.Tensor | float) -> torch.dtype:
    """torch's promotion, without `torch.result_type` (which Dynamo does not trace) where no scalar tensor is in it."""
    if isinstance(other, int) or (isinstance(other, float) and input.is_floating_point()):
        return input.dtype
    if isinstance(other, torch.Tensor) and bool(other.ndim) == bool(input.ndim):
        return torch.promote_types(input.dtype, other.dtype)
    return torch.result_type(input, other)
