"""Dropout whose mask is worked out from a seed, not stored.

    y = x / (1 − p) where kept, else 0 · x          dx = dy / (1 − p) where kept, else 0 · dy

Element i, counted along the dense tensor, is kept where word i mod 4 of Philox(seed, i div 4) is at least p · 2³². The
mask depends on the seed, p and the place alone: not on dtype, launch or GPU. Fewest bytes: x once, y once, each way.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, like_first, needs_gradient, require_floats
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.row_split import HINT, widened

BLOCK = 2048


@triton.jit
def dropped_elements(
    x_ptr, seed_ptr, y_ptr, elements, BLOCK: tl.constexpr, THRESHOLD: tl.constexpr, SCALE: tl.constexpr
):
    """A span of y: four neighbours take the four words of one call of Philox."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    lane = tl.arange(0, BLOCK)
    mask = lane < tl.minimum(elements - first, BLOCK).to(tl.int32)
    quad = tl.program_id(0).to(tl.int64) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
    low = quad.to(tl.uint32)
    a, b, c, d = tl.philox(tl.load(seed_ptr), low, (quad >> 32).to(tl.uint32), low * 0, low * 0)  # pyright: ignore[reportGeneralTypeIssues]
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (BLOCK,))
    x = widened(tl.load(x_ptr + first + lane, mask, other=0.0, eviction_policy=HINT))
    y = x * tl.where(words.to(tl.int64) >= THRESHOLD, tl.full((), SCALE, x.dtype), 0.0)
    tl.store(y_ptr + first + lane, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


def launch(x: torch.Tensor, seed: torch.Tensor, p: float) -> torch.Tensor:
    """y, in one launch; seed: int64 [], on the device."""
    y = like_first(x)
    if x.numel() == 0:
        return y
    scale = 1 / (1 - p) if p < 1 else 0.0
    launcher(dropped_elements, (triton.cdiv(x.numel(), BLOCK),))(
        x.contiguous(), seed, y, x.numel(), BLOCK, int(p * 2**32), scale, num_warps=4
    )
    return y


operator = define("dropout(Tensor x, Tensor seed, float p) -> Tensor", launch, like_first)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seed: torch.Tensor, p: float) -> torch.Tensor:
        ctx.save_for_backward(seed)
        ctx.p = p
        return operator(x, seed, p)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, None, None]:
        return operator(grad_outputs[0], *ctx.saved_tensors, ctx.p), None, None


@torch_when_transformed
def dropout(
    input: torch.Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    seed: int | torch.Tensor | None = None,
) -> torch.Tensor:
    """Elements set to 0 with probability p, the others over 1 − p, as `torch.nn.functional.dropout`; with a gradient.

    Args:
        input: float16, bfloat16, float32 or float64; a strided one is copied
        p: from 0 to 1
        training: False gives the input back
        inplace: of torch's signature, False only
        seed: the same one gives the same mask; a number, or int64 [] on the input's device; None: drawn by the
            device's generator, so `torch.manual_seed` fixes it, without waiting for the device
    Returns: the input's shape and dtype, contiguous; NaN and infinity that are dropped are NaN, as in torch
    Raises:
        RuntimeError: for inplace, or a seed that is no int64 number on the device
        TypeError: for an input that is not of a floating-point dtype
        ValueError: for p out of range
    """
    require_floats("dropout", input)
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        raise RuntimeError("dropout has no in-place form: call it with inplace=False")
    if not training or p == 0:
        return input
    held = _held_seed(input, seed)
    return _Dropout.apply(input, held, float(p)) if needs_gradient(input) else operator(input, held, float(p))


def _held_seed(x: torch.Tensor, seed: int | torch.Tensor | None) -> torch.Tensor:
    if isinstance(seed, torch.Tensor):
        if seed.dtype != torch.int64 or seed.ndim or seed.device != x.device:
            got = f"{seed.dtype} {list(seed.shape)} on {seed.device}"
            raise RuntimeError(f"dropout: seed must be int64 [] on {x.device}, got {got}")
        return seed
    if seed is None:
        return torch.randint(2**62, (), dtype=torch.int64, device=x.device)
    return torch.full((), seed, dtype=torch.int64, device=x.device)
