"""SwiGLU and GeGLU: one half of a projection, through an activation, gates the other.

    y = a(gate) · up          a(x) = x · p(x)
    silu       p = 1 / (1 + exp(−x))
    gelu       p = (1 + erf(x / √2)) / 2
    gelu tanh  p = 1 / (1 + exp(−z)), z = 2 · √(2/π) · (x + 0.044715 · x³), which is (1 + tanh(z / 2)) / 2
    dup = dy · a(gate)        dgate = dy · up · (p + gate · p′)

Fewest bytes: forward gate and up once, y once; backward dy, gate and up once, dgate and dup once. Computed in float32,
in float64 for float64, and rounded once. The halves of one tensor (`x.chunk(2, -1)`) are taken where they lie.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.elements import NUM_WARPS, as_lines, plan_spans, require_alike, span_of
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, like_first, needs_gradient, require_floats
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_split import HINT, widened

SILU, GELU, GELU_TANH = 0, 1, 2


@triton.jit
def open_share(x, KIND: tl.constexpr) -> Any:
    """(p, p′): the share of x that the activation lets through, and its slope."""
    if KIND == 1:
        p = 0.5 * (1 + tl.erf(x * 0.7071067811865476))
        slope = tl.exp(-0.5 * x * x) * 0.3989422804014327
    else:
        z = x
        dz = tl.full(x.shape, 1.0, x.dtype)
        if KIND == 2:
            z = 1.5957691216057308 * (x + 0.044715 * x * x * x)
            dz = 1.5957691216057308 * (1 + 0.134145 * x * x)
        p = 1 / (1 + tl.exp(-z))
        slope = p * (1 - p)
        slope = tl.where(slope == 0, 0.0, slope * dz)
    return p, slope


@triton.jit
def gated_elements(
    gate_ptr, up_ptr, y_ptr, columns, spans, gate_stride, up_stride, BLOCK: tl.constexpr, KIND: tl.constexpr
):
    """A span of y."""
    line, first, lane, mask = span_of(columns, spans, BLOCK)  # pyright: ignore[reportGeneralTypeIssues]
    gate = widened(tl.load(gate_ptr + line * gate_stride + first + lane, mask, other=0.0, eviction_policy=HINT))
    up = widened(tl.load(up_ptr + line * up_stride + first + lane, mask, other=0.0, eviction_policy=HINT))
    y = gate * open_share(gate, KIND)[0] * up
    tl.store(y_ptr + line * columns + first + lane, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def gated_backward_elements(
    dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, columns, spans, dy_stride, gate_stride, up_stride,
    BLOCK: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """A span of both gradients."""
    line, first, lane, mask = span_of(columns, spans, BLOCK)  # pyright: ignore[reportGeneralTypeIssues]
    dy = widened(tl.load(dy_ptr + line * dy_stride + first + lane, mask, other=0.0, eviction_policy=HINT))
    gate = widened(tl.load(gate_ptr + line * gate_stride + first + lane, mask, other=0.0, eviction_policy=HINT))
    up = widened(tl.load(up_ptr + line * up_stride + first + lane, mask, other=0.0, eviction_policy=HINT))
    p, slope = open_share(gate, KIND)  # pyright: ignore[reportGeneralTypeIssues]
    dgate = dy * up * (p + gate * slope)
    dup = dy * gate * p
    target = line * columns + first + lane
    tl.store(dgate_ptr + target, dgate.to(dgate_ptr.dtype.element_ty), mask, eviction_policy=HINT)
    tl.store(dup_ptr + target, dup.to(dup_ptr.dtype.element_ty), mask, eviction_policy=HINT)


def launch_forward(gate: torch.Tensor, up: torch.Tensor, kind: int) -> torch.Tensor:
    """y, in one launch."""
    y = like_first(gate)
    if gate.numel() == 0:
        return y
    gates, ups, _ = lines = as_lines(gate, up, y)
    grid, columns, spans, block = plan_spans(gates)
    launcher(gated_elements, grid)(
        *lines, columns, spans, gates.stride(0), ups.stride(0), block, kind, num_warps=NUM_WARPS
    )
    return y


def launch_backward(
    dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, kind: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(dgate, dup), in one launch."""
    dgate, dup = gradients(dy, gate, up, kind)
    if gate.numel() == 0:
        return dgate, dup
    lines = as_lines(dy, gate, up, dgate, dup)
    grid, columns, spans, block = plan_spans(lines[0])
    strides = [line.stride(0) for line in lines[:3]]
    launcher(gated_backward_elements, grid)(*lines, columns, spans, *strides, block, kind, num_warps=NUM_WARPS)
    return dgate, dup


def gradients(dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, kind: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the backward operator returns, not filled."""
    return like_first(gate), like_first(up)


forward_operator = define("gated_forward(Tensor gate, Tensor up, int kind) -> Tensor", launch_forward, like_first)
backward_operator = define(
    "gated_backward(Tensor dy, Tensor gate, Tensor up, int kind) -> (Tensor, Tensor)", launch_backward, gradients
)


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor, kind: int) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        ctx.kind = kind
        return forward_operator(gate, up, kind)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, torch.Tensor, None]:
        return *backward_operator(grad_outputs[0], *ctx.saved_tensors, ctx.kind), None


@remembered
@torch_when_transformed
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) · up, in one pass; with gradients.

    Args: gate, up: of one shape and dtype: float16, bfloat16, float32 or float64; the gate first, as where a model has
        `down(act(gate(x)) * up(x))`
    Returns: the shape and dtype of both, contiguous
    Raises:
        RuntimeError: where shapes or dtypes differ
        TypeError: for a dtype that is no floating-point type
    """
    return _gated("swiglu", gate, up, SILU)


@remembered
@torch_when_transformed
def geglu(gate: torch.Tensor, up: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """gelu(gate) · up, in one pass; with gradients.

    Args:
        gate, up: as in `swiglu`
        approximate: "none" or "tanh", as in `torch.nn.functional.gelu`
    Raises: as `swiglu`; RuntimeError: for another approximation
    """
    kinds = {"none": GELU, "tanh": GELU_TANH}
    if approximate not in kinds:
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return _gated("geglu", gate, up, kinds[approximate])


def _gated(name: str, gate: torch.Tensor, up: torch.Tensor, kind: int) -> torch.Tensor:
    require_floats(name, gate, up)
    require_alike(name, gate=gate, up=up)
    return _Gated.apply(gate, up, kind) if needs_gradient(gate, up) else forward_operator(gate, up, kind)
