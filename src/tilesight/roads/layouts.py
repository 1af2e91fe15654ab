"""The layouts of the correctness matrix: the same values in memory that is not contiguous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch

GAP = 100
"""Added to what lies between a view's elements, so that a kernel which reads it gives other numbers."""


@dataclass(frozen=True)
class Layout:
    """A way to lay out a tensor, and the shapes that it can be told apart for.

    Args:
        name: what a report says such a tensor is
        applies: whether a tensor of this shape has such a layout
        lay_out: the tensor as such a view
        repeats: its values are not the tensor's: the first ones again and again
    """

    name: str
    applies: Callable[[tuple[int, ...]], bool]
    lay_out: Callable[[torch.Tensor], torch.Tensor]
    repeats: bool = False


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def _sliced(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    sizes = list(tensor.shape)
    sizes[axis] *= 2
    wider = _surroundings(tensor, sizes)
    view = wider[(slice(None),) * (axis % tensor.ndim) + (slice(None, None, 2),)]
    view.copy_(tensor)
    return view


def _sliced_rows(tensor: torch.Tensor) -> torch.Tensor:
    return _sliced(tensor, 0)


def _sliced_columns(tensor: torch.Tensor) -> torch.Tensor:
    return _sliced(tensor, tensor.ndim - 1)


def _padded_rows(tensor: torch.Tensor) -> torch.Tensor:
    wider = _surroundings(tensor, [*tensor.shape[:-1], tensor.shape[-1] + 3])
    view = wider[..., : tensor.shape[-1]]
    view.copy_(tensor)
    return view


def _expanded(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].clone().expand(tensor.shape)


def _repeated(tensor: torch.Tensor) -> torch.Tensor:
    return _expanded(tensor).contiguous()


def _offset(tensor: torch.Tensor) -> torch.Tensor:
    wider = _surroundings(tensor, [tensor.numel() + 1])
    view = wider[1:].view(tensor.shape)
    view.copy_(tensor)
    return view


def _surroundings(tensor: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """A larger tensor of other values: of a view's neighbours."""
    if tensor.dtype.is_floating_point:
        return (torch.arange(prod(sizes), dtype=torch.float32) % 7 + GAP).to(tensor.dtype).view(sizes)
    return tensor.flatten()[:1].clone().expand(prod(sizes)).contiguous().view(sizes)


def _has_rows(shape: tuple[int, ...]) -> bool:
    return len(shape) >= 2 and shape[-1] > 1 and shape[-2] > 1


def _has_first_axis(shape: tuple[int, ...]) -> bool:
    return len(shape) >= 2 and shape[0] > 1 and prod(shape) > 0


def _is_wide(shape: tuple[int, ...]) -> bool:
    return len(shape) >= 1 and shape[-1] > 1 and prod(shape) > 0


def _expands(shape: tuple[int, ...]) -> bool:
    return len(shape) >= 1 and shape[0] > 1 and prod(shape) > 0


LAYOUTS = (
    Layout("transposed", _has_rows, _transposed),
    Layout("sliced [..., ::2]", _is_wide, _sliced_columns),
    Layout("sliced [::2]", _has_first_axis, _sliced_rows),
    Layout("with padded rows", _has_rows, _padded_rows),
    Layout("expanded (stride 0)", _expands, _expanded, repeats=True),
    Layout("offset by one element", _is_wide, _offset),
)
"""Each is given to one input at a time."""
REPEATED = Layout("repeated", _expands, _repeated, repeats=True)
"""The values of an expanded tensor in one that is contiguous: tells what they do from what its strides do."""
