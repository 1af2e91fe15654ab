"""Each function of the library, written in PyTorch's operators: same name, same arguments, same result.

They are what the kernels mean, and what runs under `torch.func`: vmap, grad and the others take PyTorch's operators
apart, and a hand-written kernel can't be.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import torch
import torch.nn.functional as F

from tilesight.capture.transforms import is_transformed

P = ParamSpec("P")
R = TypeVar("R")


def torch_when_transformed(function: Callable[P, R]) -> Callable[P, R]:
    """The function; while `torch.func` transforms the caller, the reference of that name, which it can transform."""
    reference: Callable[P, R] = globals()[function.__name__]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.compiler.is_compiling() and is_transformed():
            return reference(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def add(input: torch.Tensor, other: torch.Tensor | float, *, alpha: float = 1) -> torch.Tensor:
    return torch.add(input, other, alpha=alpha)


def add_relu(input: torch.Tensor, other: torch.Tensor | float) -> torch.Tensor:
    return torch.relu(input + other)


def softmax(input: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.softmax(input, dim, dtype)


def log_softmax(input: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.log_softmax(input, dim, dtype)


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    return F.rms_norm(input, list(normalized_shape), weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, eps: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return F.rms_norm(total, list(total.shape[-1:]), weight, eps), total


def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    return F.layer_norm(input, list(normalized_shape), weight, bias, eps)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def geglu(gate: torch.Tensor, up: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return F.gelu(gate, approximate=approximate) * up


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False) -> torch.Tensor:
    half = x.shape[-1] // 2
    if cos.shape[-1] == half:
        cos, sin = (_doubled(each, interleaved) for each in (cos, sin))
    if interleaved:
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    else:
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return (x * cos + turned * sin).to(x.dtype)


def _doubled(angles: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """An angle for each element from one for each pair."""
    return angles.repeat_interleave(2, -1) if interleaved else torch.cat([angles, angles], -1)


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
    rest = (weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    loss = F.cross_entropy(input, target, *rest)
    if z_loss == 0:
        return loss
    squares = torch.logsumexp(input, 1 if input.ndim > 1 else 0).square().masked_fill(target == ignore_index, 0.0)
    if reduction == "none":
        return loss + z_loss * squares
    counted = (target != ignore_index).sum() if reduction == "mean" else 1
    return loss + z_loss * squares.sum() / counted


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
    logits = F.linear(input, linear_weight, linear_bias)
    ignored = -100 if ignore_index is None else ignore_index
    loss = cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target.reshape(-1), weight, None, ignored, None, reduction,
        label_smoothing, z_loss,
    )  # fmt: skip
    return loss.reshape(target.shape) if reduction == "none" else loss


def sum(
    input: torch.Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    return torch.sum(input, dim, keepdim, dtype=dtype)


def max(input: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    return torch.max(input) if dim is None else torch.max(input, dim, keepdim)


def argmax(input: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    return torch.argmax(input, dim, keepdim)


def cumsum(input: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.cumsum(input, dim, dtype=dtype)


def dropout(
    input: torch.Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    seed: int | torch.Tensor | None = None,
) -> torch.Tensor:
    """Raises: RuntimeError: for a seed: PyTorch's dropout draws from its own generator"""
    if seed is not None:
        raise RuntimeError("dropout: a seed can't be replayed under torch.func (vmap, grad, ...); call it outside")
    return F.dropout(input, p, training, inplace)


def embedding(
    input: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> torch.Tensor:
    return F.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


def transpose(input: torch.Tensor, dim0: int, dim1: int) -> torch.Tensor:
    return torch.transpose(input, dim0, dim1).contiguous()


def matmul(
    input: torch.Tensor,
    other: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    residual: torch.Tensor | None = None,
    scale: Any = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Products of float8 are those of float32."""
    is_float8 = input.dtype.itemsize == 1
    y = torch.matmul(input.float(), other.float()) if is_float8 else torch.matmul(input, other)
    for factor in scale if isinstance(scale, tuple) else (scale,):
        y = y if factor is None else y * factor
    y = y if bias is None else y + bias
    if activation in ("swiglu", "geglu"):
        gate, up = y.chunk(2, -1)
        y = (swiglu if activation == "swiglu" else geglu)(gate, up)
    elif activation is not None:
        y = ACTIVATIONS[activation](y)
    y = y if residual is None else y + residual
    return y.to(out_dtype or (torch.bfloat16 if is_float8 else input.dtype))


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
}


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    window: tuple[int, int] | None = None,
    cu_seqlens: torch.Tensor | None = None,
    cu_seqlens_key: torch.Tensor | None = None,
) -> torch.Tensor:
    sequence, place = _places(query, cu_seqlens)
    sequence_key, place_key = _places(key, cu_seqlens if cu_seqlens_key is None else cu_seqlens_key)
    ahead = place_key[None, :] - place[:, None]
    left, right = (-1, -1) if window is None else window
    seen = (sequence[:, None] == sequence_key[None, :]) & (sequence >= 0)[:, None]
    seen = seen if left < 0 else seen & (ahead >= -left)
    seen = seen if right < 0 else seen & (ahead <= right)
    seen = seen & (ahead <= 0) if is_causal else seen
    bias = torch.zeros((), dtype=query.dtype, device=query.device)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        seen = seen & attn_mask
    elif attn_mask is not None:
        bias = attn_mask.to(query.dtype)
    mask = torch.where(seen, bias, float("-inf"))
    out = F.scaled_dot_product_attention(query, key, value, mask, dropout_p, scale=scale, enable_gqa=enable_gqa)
    return torch.where(seen.any(-1, keepdim=True), out, torch.zeros_like(out))


def _places(tensor: torch.Tensor, starts: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row of [..., rows, head] its sequence, −1 for none, and its place in it."""
    row = torch.arange(tensor.shape[-2], device=tensor.device)
    if starts is None:
        return torch.zeros_like(row), row
    sequence = torch.searchsorted(starts.to(row.dtype), row, right=True) - 1
    return torch.where(row < starts[-1], sequence, -1), row - starts[sequence]


def decode_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    key, value = (cache[block_table.long()].flatten(1, 2).transpose(1, 2) for cache in (key_cache, value_cache))
    seen = (torch.arange(key.shape[2], device=query.device) < lengths[:, None])[:, None, None, :]
    out = F.scaled_dot_product_attention(query.unsqueeze(2), key, value, seen, scale=scale, enable_gqa=True).squeeze(2)
    return torch.where((lengths > 0)[:, None, None], out, torch.zeros_like(out))
