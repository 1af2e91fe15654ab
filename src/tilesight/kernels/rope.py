"""Rotary position embedding: pairs of a head's elements, turned by an angle of their position.

    y1 = x1 · cos1 − x2 · sin1          y2 = x2 · cos2 + x1 · sin2
    dx1 = dy1 · cos1 + dy2 · sin2       dx2 = dy2 · cos2 − dy1 · sin1

A pair is elements i and i + dim/2 ("rotate half": Llama, GPT-NeoX), or 2i and 2i + 1 ("interleaved": GPT-J, RoFormer).

Fewest bytes: x once, y once, cos and sin once; backward the same. Computed in float32, in float64 for float64, and
rounded once. x is taken where it lies and y gets its strides: queries of [batch, tokens, heads, dim] seen as
[batch, heads, tokens, dim] stay so.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, needs_gradient, require_floats
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_split import HINT, widened

TILE = 2048
"""Elements of a program, in whole rows."""


@triton.jit
def pair_of(
    pointer, offset, mask, BLOCK: tl.constexpr, ROWS: tl.constexpr, HALF: tl.constexpr, MIXED: tl.constexpr
) -> Any:
    """Both halves of ROWS rows of 2 · HALF elements: [ROWS, BLOCK] each."""
    if MIXED:
        lane = tl.arange(0, 2 * BLOCK)[None, :]
        both = tl.load(pointer + offset + lane, mask & (lane < 2 * HALF), other=0.0)
        first, second = tl.split(tl.reshape(both, (ROWS, BLOCK, 2)))
    else:
        lane = tl.arange(0, BLOCK)[None, :]
        first = tl.load(pointer + offset + lane, mask & (lane < HALF), other=0.0)
        second = tl.load(pointer + offset + HALF + lane, mask & (lane < HALF), other=0.0)
    return widened(first), widened(second)


@triton.jit
def angles_of(
    pointer, offset, mask, BLOCK: tl.constexpr, ROWS: tl.constexpr, HALF: tl.constexpr, MIXED: tl.constexpr,
    FULL: tl.constexpr,
) -> Any:  # fmt: skip
    """What both halves are multiplied by: the same where rows have HALF elements."""
    if FULL:
        first, second = pair_of(pointer, offset, mask, BLOCK, ROWS, HALF, MIXED)  # pyright: ignore[reportGeneralTypeIssues]
    else:
        lane = tl.arange(0, BLOCK)[None, :]
        first = widened(tl.load(pointer + offset + lane, mask & (lane < HALF), other=0.0))
        second = first
    return first, second


@triton.jit
def rope_rows(
    x_ptr, cos_ptr, sin_ptr, y_ptr, rows, second, third, x_a, x_b, x_c, cos_a, cos_b, cos_c, sin_a, sin_b, sin_c,
    y_a, y_b, y_c, HALF: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, MIXED: tl.constexpr,
    FULL: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """ROWS rows of [first, second, third] of them; BACK turns them the other way."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    mask = (row < rows)[:, None]
    a = (row // (third * second))[:, None]
    b = (row // third % second)[:, None]
    c = (row % third)[:, None]
    x1, x2 = pair_of(x_ptr, a * x_a + b * x_b + c * x_c, mask, BLOCK, ROWS, HALF, MIXED)  # pyright: ignore[reportGeneralTypeIssues]
    cos1, cos2 = angles_of(cos_ptr, a * cos_a + b * cos_b + c * cos_c, mask, BLOCK, ROWS, HALF, MIXED, FULL)
    sin1, sin2 = angles_of(sin_ptr, a * sin_a + b * sin_b + c * sin_c, mask, BLOCK, ROWS, HALF, MIXED, FULL)
    if BACK:
        y1 = x1 * cos1 + x2 * sin2
        y2 = x2 * cos2 - x1 * sin1
    else:
        y1 = x1 * cos1 - x2 * sin1
        y2 = x2 * cos2 + x1 * sin2
    dtype: tl.constexpr = y_ptr.dtype.element_ty
    y_ptr += a * y_a + b * y_b + c * y_c
    if MIXED:
        lane = tl.arange(0, 2 * BLOCK)[None, :]
        both = tl.reshape(tl.join(y1.to(dtype), y2.to(dtype)), (ROWS, 2 * BLOCK))
        tl.store(y_ptr + lane, both, mask & (lane < 2 * HALF), eviction_policy=HINT)
    else:
        lane = tl.arange(0, BLOCK)[None, :]
        tl.store(y_ptr + lane, y1.to(dtype), mask & (lane < HALF), eviction_policy=HINT)
        tl.store(y_ptr + HALF + lane, y2.to(dtype), mask & (lane < HALF), eviction_policy=HINT)


def launch(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool, back: bool) -> torch.Tensor:
    """y, in one launch."""
    y = output(x, cos, sin, interleaved, back)
    if x.numel() == 0:
        return y
    tensors = [_four_axes(each, x) for each in (x, cos, sin, y)]
    strides = [stride for tensor in tensors for stride in tensor.stride()[:3]]
    first, second, third, dim = tensors[0].shape
    half, rows = dim // 2, first * second * third
    block = triton.next_power_of_2(half)
    count = min(max(1, TILE // (2 * block)), triton.next_power_of_2(rows))
    is_full = cos.shape[-1] == dim
    launcher(rope_rows, (triton.cdiv(rows, count),))(
        *tensors, rows, second, third, *strides, half, block, count, interleaved, is_full, back, num_warps=4
    )
    return y


def _four_axes(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The tensor over the first axes of another, as [a, b, c, last] with the last axis dense."""
    wide = tensor.expand(*like.shape[:-1], tensor.shape[-1])
    wide = wide if wide.stride(-1) == 1 else wide.contiguous()
    if wide.ndim > 4:
        return wide.flatten(0, wide.ndim - 4)
    return wide[(None,) * (4 - wide.ndim)]


def output(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool, back: bool) -> torch.Tensor:
    """What the operator returns, not filled: with x's strides where its axes fit those and the last one is dense."""
    y = torch.empty_like(x)
    fits = x.ndim <= 4 and y.stride(-1) == 1
    return y if fits else torch.empty_like(x, memory_format=torch.contiguous_format)


operator = define("rope(Tensor x, Tensor cos, Tensor sin, bool interleaved, bool back) -> Tensor", launch, output)


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.interleaved = interleaved
        return operator(x, cos, sin, interleaved, False)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, None, None, None]:
        return operator(grad_outputs[0], *ctx.saved_tensors, ctx.interleaved, True), None, None, None


@remembered
@torch_when_transformed
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False) -> torch.Tensor:
    """Every pair of the last axis turned by the angle whose cosine and sine are given; with a gradient of x.

    torch has no such function. The order is that of the call it replaces (`apply_rotary_pos_emb(q, k, cos, sin)`),
    one tensor at a time; `interleaved` is the last, and False, as in the kernels of attention libraries.

    Args:
        x: [..., dim] float16, bfloat16, float32 or float64, dim even
        cos, sin: [..., dim / 2], or [..., dim] with an angle for each element; of a floating-point dtype. Their first
            axes broadcast to x's: [tokens, dim] fits [batch, heads, tokens, dim]; for [batch, tokens, heads, dim] give
            `cos.unsqueeze(-2)`
        interleaved: pairs are neighbours, not half of dim apart
    Returns: x's shape, dtype and strides
    Raises:
        RuntimeError: where the shapes do not fit, or a gradient of cos or sin is wanted
        TypeError: for a dtype that is no floating-point type
    """
    require_floats("rope", x, cos, sin)
    _require_shapes(x, cos, sin)
    if needs_gradient(cos, sin):
        raise RuntimeError("rope has no gradient of cos and sin; give them detached")
    return _Rope.apply(x, cos, sin, interleaved) if needs_gradient(x) else operator(x, cos, sin, interleaved, False)


def _require_shapes(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    got = f"got x {list(x.shape)}, cos {list(cos.shape)} and sin {list(sin.shape)}"
    if x.ndim == 0 or x.shape[-1] % 2:
        raise RuntimeError(f"rope: the last axis of x must have an even number of elements, {got}")
    if cos.shape != sin.shape or cos.ndim == 0 or cos.shape[-1] not in (x.shape[-1], x.shape[-1] // 2):
        raise RuntimeError(f"rope: cos and sin must have one shape and as many columns as x or half as many, {got}")
    pairs = zip(reversed(cos.shape[:-1]), reversed(x.shape[:-1]), strict=False)
    if cos.ndim > x.ndim or any(mine not in (1, wanted) for mine, wanted in pairs):
        raise RuntimeError(f"rope: the first axes of cos and sin must broadcast to those of x, {got}")
