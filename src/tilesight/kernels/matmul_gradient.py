"""Gradients of `matmul`.

    dz = dy · f′(z)        gated: dz = dy · z_up · f′(z_gate) beside dy · f(z_gate)
    da = factor · dz · bᵀ        db = factor · aᵀ · dz        dbias = Σ over rows of dz        dresidual = dy

z is kept by the forward pass, rounded to y's dtype, as torch keeps what goes into an activation: writing it costs its
bytes, computing it again would cost a third of the backward pass. Without an activation nothing but a and b is kept.
The products are the forward pass's own kernels on transposed views; without an activation they have gradients.

Fewest bytes of dz: dy and z once, dz once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.elements import NUM_WARPS
from tilesight.kernels.gated import open_share
from tilesight.kernels.launching import launcher
from tilesight.kernels.matmul_launch import NONE, operator
from tilesight.kernels.operators import define, needs_gradient, wide_dtype
from tilesight.kernels.row_split import HINT, widened

SPAN = 1024


@triton.jit
def behind_activation(
    dy_ptr, z_ptr, dz_ptr, columns, spans, BLOCK: tl.constexpr, KIND: tl.constexpr, GATED: tl.constexpr
):
    """A span of a row of dz; all three are dense, z and dz of 2 · columns with GATED."""
    row = (tl.program_id(0) // spans).to(tl.int64)
    column = tl.program_id(0) % spans * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    width = 2 * columns if GATED else columns
    dy = widened(tl.load(dy_ptr + row * columns + column, mask, other=0.0, eviction_policy=HINT))
    z = widened(tl.load(z_ptr + row * width + column, mask, other=0.0, eviction_policy=HINT))
    target = dz_ptr + row * width + column
    if KIND == 1:
        opened = tl.where(z <= 0, 0.0, z)
        slope = tl.where(z <= 0, tl.zeros_like(z), tl.full(z.shape, 1.0, z.dtype))
    else:
        p, rise = open_share(z, KIND - 2)  # pyright: ignore[reportGeneralTypeIssues]
        opened = z * p
        slope = p + z * rise
    if GATED:
        up = widened(tl.load(z_ptr + row * width + columns + column, mask, other=0.0, eviction_policy=HINT))
        tl.store(target + columns, (dy * opened).to(dz_ptr.dtype.element_ty), mask, eviction_policy=HINT)
        dy *= up
    tl.store(target, (dy * slope).to(dz_ptr.dtype.element_ty), mask, eviction_policy=HINT)


def launch_activation(dy: torch.Tensor, z: torch.Tensor, kind: int, gated: bool) -> torch.Tensor:
    """dz, in one launch."""
    dz = torch.empty_like(z)
    if z.numel() == 0:
        return dz
    columns = dy.shape[-1]
    block = min(SPAN, int(triton.next_power_of_2(columns)))
    spans = triton.cdiv(columns, block)
    launcher(behind_activation, (dy.numel() // columns * spans,))(
        dy.contiguous(), z, dz, columns, spans, block, kind, gated, num_warps=NUM_WARPS
    )
    return dz


def like_second(_: torch.Tensor, second: torch.Tensor, *__: Any) -> torch.Tensor:
    """A result of the second tensor's shape and dtype."""
    return torch.empty_like(second)


activation_backward = define(
    "matmul_activation_backward(Tensor dy, Tensor z, int kind, bool gated) -> Tensor", launch_activation, like_second
)


@dataclass(frozen=True)
class Form:
    """What `matmul` was asked for, but for tensors; see `matmul_launch.Behind`."""

    factor: float = 1.0
    kind: int = NONE
    is_gated: bool = False
    dtype: torch.dtype = torch.float32

    def numbers(self) -> tuple[float, int, bool]:
        """As the operator takes them."""
        return self.factor, self.kind, self.is_gated


def product(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    scales: tuple[torch.Tensor | None, torch.Tensor | None],
    form: Form,
) -> torch.Tensor:
    """y [batches, M, N] of a [batches, M, K] and b [batches, K, N], recorded by autograd where there is need."""
    if needs_gradient(a, b, bias, residual):
        return _Matmul.apply(a, b, bias, residual, *scales, form)
    return operator(a, b, bias, residual, *scales, *form.numbers(), False, form.dtype)[0]


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        a: torch.Tensor,
        b: torch.Tensor,
        bias: torch.Tensor | None,
        residual: torch.Tensor | None,
        a_scale: torch.Tensor | None,
        b_scale: torch.Tensor | None,
        form: Form,
    ) -> torch.Tensor:
        keep = form.kind != NONE and any(ctx.needs_input_grad[:3])
        y, z = operator(a, b, bias, residual, a_scale, b_scale, *form.numbers(), keep, form.dtype)
        ctx.save_for_backward(a, b, a_scale, b_scale, z)
        ctx.form = form
        ctx.dtypes = [None if each is None else each.dtype for each in (bias, residual)]
        return y

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        (dy,) = grad_outputs
        a, b, a_scale, b_scale, z = ctx.saved_tensors
        form, (bias_dtype, residual_dtype) = ctx.form, ctx.dtypes
        needs_a, needs_b, needs_bias, needs_residual = ctx.needs_input_grad[:4]
        da = db = dbias = None
        if needs_a or needs_b or needs_bias:
            dz = dy if form.kind == NONE else activation_backward(dy, z, form.kind, form.is_gated)
            if needs_bias:
                dbias = dz.sum((0, 1), dtype=wide_dtype(dz.dtype)).to(bias_dtype)
            dz = scaled(dz, a_scale, b_scale).to(a.dtype)
            back = Form(form.factor, dtype=a.dtype)
            multiply = product if form.kind == NONE else plain_product
            da = multiply(dz, b.transpose(1, 2), None, None, (None, None), back) if needs_a else None
            db = multiply(a.transpose(1, 2), dz, None, None, (None, None), back) if needs_b else None
        return da, db, dbias, dy.to(residual_dtype) if needs_residual else None, None, None, None


def plain_product(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    scales: tuple[torch.Tensor | None, torch.Tensor | None],
    form: Form,
) -> torch.Tensor:
    """`product` without a record: where z's share of a second derivative would be missing, there is none at all."""
    return operator(a, b, bias, residual, *scales, *form.numbers(), False, form.dtype)[0]


def scaled(dz: torch.Tensor, a_scale: torch.Tensor | None, b_scale: torch.Tensor | None) -> torch.Tensor:
    """dz times what scales its rows and columns."""
    for scale, shape in ((a_scale, (1, -1, 1)), (b_scale, (1, 1, -1))):
        dz = dz if scale is None else dz * scale.reshape(shape)
    return dz
