"""Matrix products with what usually follows them in the same launch; the kernels are in `matmul_tiles`.

y = activation(scale · (input · other) + bias) + residual
"""

from __future__ import annotations

import math
from functools import partial
from typing import TypeAlias

import torch

from tilesight.kernels.matmul_gradient import Form, product
from tilesight.kernels.matmul_launch import GELU, GELU_TANH, NONE, RELU, SILU
from tilesight.kernels.operators import FLOATS, float32_precision, wide_dtype
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
ACTIVATIONS = {
    None: (NONE, False),
    "relu": (RELU, False),
    "silu": (SILU, False),
    "gelu": (GELU, False),
    "gelu_tanh": (GELU_TANH, False),
    "swiglu": (SILU, True),
    "geglu": (GELU, True),
}
"""(function, whether the first half of the columns, through it, multiplies the second)."""
Scale: TypeAlias = "float | torch.Tensor | tuple[torch.Tensor, torch.Tensor] | None"


@partial(remembered, state=float32_precision)
@torch_when_transformed
def matmul(
    input: torch.Tensor,
    other: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    residual: torch.Tensor | None = None,
    scale: Scale = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """activation(scale · (input · other) + bias) + residual, rounded once; with gradients.

    Without the keywords as `torch.matmul`: vectors, matrices and batches of them that broadcast. float32 is multiplied
    as `torch.backends.cuda.matmul` is set. A float8 product is as `torch._scaled_mm` without fast accumulation. There
    are gradients of input, other, bias and residual; second ones without an activation only.

    Args:
        input: [..., M, K] or [K]; float16, bfloat16, float32, float64, float8_e4m3fn or float8_e5m2
        other: [..., K, N] or [K], of the input's dtype, or the other float8
        bias: [N], of a floating-point dtype
        activation: None, "relu", "silu", "gelu", "gelu_tanh", or "swiglu" and "geglu": of 2·N columns of other the
            first N, through SiLU or GELU, multiply the last N
        residual: of a floating-point dtype, broadcasts to the result
        scale: a number; or a float32 tensor (float64 for float64) of one number or one a row of input, [M, 1]; or a
            pair of these, the second of one number or one a column of other, [1, N]; of tensors there is no gradient.
            One a row for one matrix `other` only
        out_dtype: of the result, a floating-point dtype; None: the input's, bfloat16 for float8
    Returns: the shape that torch.matmul gives, N columns where the activation is gated; contiguous
    Raises:
        RuntimeError: where shapes, dtypes or devices do not fit, or a gradient is asked for that there is not
        TypeError: for a dtype that is not supported
        ValueError: for an activation that is not known, or a gated one with an odd number of columns
    """
    a, b = operands(input, other)
    kind, is_gated = activation_of(activation, b)
    shape = result_shape(a, b, is_gated)
    dtype = out_dtype_of(a, out_dtype)
    left = a.unsqueeze(0) if a.ndim == 1 else a
    right = b.unsqueeze(1) if b.ndim == 1 else b
    full = (*shape[: len(shape) - (a.ndim > 1) - (b.ndim > 1)], left.shape[-2], right.shape[-1] // (1 + is_gated))
    require_behind(a, b, bias, residual, full[-1] * (1 + is_gated), shape)
    rest = None if residual is None else residual.expand(shape).reshape(full)
    x, w, rest = as_batches(left, right, rest, full)
    factor, scales = scales_of(scale, a, x.shape[1], w.shape[2], len(x) == 1 or right.ndim == 2)
    form = Form(factor, kind, is_gated, dtype)
    row_bias = None if bias is None else bias.contiguous()
    return product(x, w, row_bias, rest, scales, form).reshape(shape)


def operands(input: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both, in autocast's dtype where it is on, as `torch.matmul`'s.

    Raises: RuntimeError, TypeError: where they do not fit each other
    """
    for each in (input, other):
        if each.dtype not in (*FLOATS, *FLOAT8):
            raise TypeError(f"matmul takes float16, bfloat16, float32, float64 or float8, not {each.dtype}")
        if each.ndim == 0:
            raise RuntimeError("both arguments to matmul need to be at least 1D, but one of them is 0D")
    if input.device != other.device:
        raise RuntimeError(f"expected all tensors on one device, got {input.device} and {other.device}")
    if input.dtype in FLOATS[:3] and other.dtype in FLOATS[:3]:
        device = input.device.type
        if torch.is_autocast_enabled(device):
            input, other = (each.to(torch.get_autocast_dtype(device)) for each in (input, other))
    if input.dtype != other.dtype and not (input.dtype in FLOAT8 and other.dtype in FLOAT8):
        raise RuntimeError(f"expected both operands to have the same dtype, but got {input.dtype} != {other.dtype}")
    if input.dtype in FLOAT8 and (input.requires_grad or other.requires_grad):
        raise RuntimeError("matmul has no gradient of float8 operands")
    return input, other


def activation_of(activation: str | None, b: torch.Tensor) -> tuple[int, bool]:
    """(function, whether it is gated)."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {list(ACTIVATIONS)}, got {activation!r}")
    kind, is_gated = ACTIVATIONS[activation]
    if is_gated and (b.ndim == 1 or b.shape[-1] % 2):
        raise ValueError(f"{activation} needs an even number of columns, got other of shape {list(b.shape)}")
    return kind, is_gated


def result_shape(a: torch.Tensor, b: torch.Tensor, is_gated: bool) -> tuple[int, ...]:
    """The shape that `torch.matmul` gives, half of the columns where gated."""
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({list(a.shape)} and {list(b.shape)})")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    columns = (b.shape[-1] // (2 if is_gated else 1),) if b.ndim > 1 else ()
    return (*batch, *a.shape[-2:-1], *columns)


def out_dtype_of(a: torch.Tensor, out_dtype: torch.dtype | None) -> torch.dtype:
    """The result's dtype."""
    if out_dtype is None:
        return torch.bfloat16 if a.dtype in FLOAT8 else a.dtype
    if out_dtype not in FLOATS or (out_dtype == torch.float64) != (a.dtype == torch.float64):
        raise TypeError(f"matmul of {a.dtype} gives float16, bfloat16 or float32, of float64 float64; not {out_dtype}")
    return out_dtype


def require_behind(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    columns: int,
    shape: tuple[int, ...],
) -> None:
    """Raises: RuntimeError, TypeError: where bias or residual does not fit the result"""
    for each in (bias, residual):
        if each is not None and each.dtype not in FLOATS:
            raise TypeError(f"matmul takes a bias and a residual of a floating-point dtype, not {each.dtype}")
        if each is not None and each.device != a.device:
            raise RuntimeError(f"expected all tensors on one device, got {a.device} and {each.device}")
    if bias is not None and (tuple(bias.shape) != (columns,) or b.ndim == 1):
        raise RuntimeError(f"bias must be [{columns}] for other of {list(b.shape)}, got {list(bias.shape)}")
    if residual is not None and not broadcasts_to(residual.shape, shape):
        raise RuntimeError(f"residual of {list(residual.shape)} does not broadcast to the result's {list(shape)}")


def broadcasts_to(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a tensor of the given shape can be expanded to the other."""
    ends = zip(given[::-1], shape[::-1], strict=False)
    return len(given) <= len(shape) and all(each in (1, wanted) for each, wanted in ends)


def as_batches(
    left: torch.Tensor, right: torch.Tensor, residual: torch.Tensor | None, full: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Operands and residual as [batches, rows, columns]; one matrix on the right takes all rows as one matrix."""
    if right.ndim == 2:
        rows = math.prod(full[:-1])
        folded = None if residual is None else residual.reshape(1, rows, full[-1])
        return left.reshape(1, rows, left.shape[-1]), right.unsqueeze(0), folded
    batch, batches = full[:-2], math.prod(full[:-2])
    x = left.expand(*batch, *left.shape[-2:]).reshape(batches, *left.shape[-2:])
    w = right.expand(*batch, *right.shape[-2:]).reshape(batches, *right.shape[-2:])
    return x, w, None if residual is None else residual.reshape(batches, *full[-2:])


def scales_of(
    scale: Scale, a: torch.Tensor, rows: int, columns: int, is_one: bool
) -> tuple[float, tuple[torch.Tensor | None, torch.Tensor | None]]:
    """(number, (of rows, of columns)).

    Args:
        is_one: whether there is one matrix, so that rows can have a scale each
    """
    wide = wide_dtype(a.dtype)
    if scale is None:
        return 1.0, (None, None)
    if not isinstance(scale, (torch.Tensor, tuple)):
        number = float(scale)
        is_exact = wide == torch.float32 or number == 1.0
        return (number, (None, None)) if is_exact else (1.0, (a.new_full((1,), number), None))
    pair = (scale, None) if isinstance(scale, torch.Tensor) else scale
    if len(pair) != 2:
        raise RuntimeError(f"scale must be a number, a tensor or a pair of tensors, got {len(pair)} of them")
    found: list[torch.Tensor | None] = []
    for each, wanted in zip(pair, ((rows, 1), (1, columns)), strict=True):
        if each is not None:
            require_scale(each, a, wanted, wide, is_one)
        found.append(None if each is None else each.reshape(-1).contiguous())
    return 1.0, (found[0], found[1])


def require_scale(
    scale: torch.Tensor, a: torch.Tensor, wanted: tuple[int, int], dtype: torch.dtype, is_one: bool
) -> None:
    """Raises: RuntimeError: for a scale that does not fit"""
    if scale.dtype != dtype or scale.device != a.device:
        raise RuntimeError(f"expected a scale of {dtype} on {a.device}, got {scale.dtype} on {scale.device}")
    if scale.numel() != 1 and (tuple(scale.shape) != wanted or not is_one):
        raise RuntimeError(f"expected a scale of one number or {list(wanted)}, got {list(scale.shape)}")
    if scale.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("matmul has no gradient of a scale that is a tensor")
