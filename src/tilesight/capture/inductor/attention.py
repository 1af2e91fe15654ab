"""What `scaled_dot_product_attention` becomes on the target: cuDNN, flash, memory-efficient or the maths path.

torch decides that in C++ from the shapes, the dtype, the mask and the GPU, and where it finds no GPU takes the maths
path. Here the decision is made again from the target's figures, and the operator is taken apart as torch takes it
apart, so that the graph is the one that the GPU would get. Seen to work on torch 2.11.0, 2.13.0 and 2.14.1.

Source: the conditions are those of ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.h, the steps around
    the chosen operator those of attention.cpp; compared with an H200's choices in tests/gpu.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from tilesight.capture.inductor.dispatcher import has_kernel, kernels_registered
from tilesight.targets import Target

HALVES = (torch.float16, torch.bfloat16)
MOST_CUDNN_HEAD = 128
MOST_CUDNN_HEAD_OF_DATACENTRE = 256
"""On datacentre Hopper and Blackwell, as an H200 with torch 2.11.0 and cuDNN 9.19 chooses. torch's main branch has
since tied heads over 128 to a newer cuDNN, and dropout to sixteenths; neither has been seen on a GPU."""
MOST_FLASH_HEAD = 256
HEAD_UNIT = 8
MASK_UNIT = 8
"""Elements to which the memory-efficient kernel wants a mask's rows aligned."""
LOWEST_OF_CUDNN = -65504.0
"""What a bool mask adds for cuDNN, in place of -inf."""


class Backend(Enum):
    """As `torch.nn.attention.SDPBackend` numbers them."""

    MATH = 0
    FLASH = 1
    EFFICIENT = 2
    CUDNN = 3


@dataclass(frozen=True)
class Attention:
    """The arguments of one `scaled_dot_product_attention`.

    Args:
        query: [batch, heads, queries, head]; key and value [batch, heads, keys, head]
        mask: additive or bool, broadcast to [batch, heads, queries, keys]
        dropout: probability
    """

    query: Any
    key: Any
    value: Any
    mask: Any = None
    dropout: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    is_grouped: bool = False

    @property
    def tensors(self) -> tuple[Any, Any, Any]:
        return self.query, self.key, self.value

    @property
    def is_trained(self) -> bool:
        """Whether a gradient is asked for."""
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.tensors)


def choose_backend(call: Attention, target: Target) -> Backend:
    """The backend that torch's CUDA build chooses on the target.

    User switches such as `torch.nn.attention.sdpa_kernel` are asked.
    """
    usable = {
        Backend.CUDNN: (torch.backends.cuda.cudnn_sdp_enabled, _takes_cudnn),
        Backend.FLASH: (torch.backends.cuda.flash_sdp_enabled, _takes_flash),
        Backend.EFFICIENT: (torch.backends.cuda.mem_efficient_sdp_enabled, _takes_efficient),
    }
    if not prefers_cudnn(target):  # the maths path, which takes everything, stands before it
        del usable[Backend.CUDNN]
    for backend, (is_enabled, takes) in usable.items():
        if is_enabled() and _is_whole(call) and takes(call, target):
            return backend
    return Backend.MATH


def prefers_cudnn(target: Target) -> bool:
    """Datacentre Hopper and Blackwell try cuDNN's kernel first."""
    return int(target.arch) in (90, 100, 103)


def _is_whole(call: Attention) -> bool:
    """What every fused kernel asks for."""
    if any(tensor.dim() != 4 for tensor in call.tensors):
        return False
    batch = _size(call.query, 0)  # compared, not put in a set: a symbolic size cannot be hashed
    return (
        all(_size(tensor, 0) == batch for tensor in call.tensors)
        and _size(call.query, 2) != 0
        and _size(call.key, 2) != 0
    )


def _takes_cudnn(call: Attention, target: Target) -> bool:
    query_head, value_head = _size(call.query, 3), _size(call.value, 3)
    most = MOST_CUDNN_HEAD_OF_DATACENTRE if prefers_cudnn(target) else MOST_CUDNN_HEAD
    return (
        int(target.arch) >= 80
        and call.query.dtype in HALVES
        and _mask_fits(call)
        and not _is_to_repeat()
        and _rows_are_dense(call, is_one_enough=True)
        and _heads_fit(call, takes_groups=True)
        and max(query_head, value_head) <= most
        and query_head % HEAD_UNIT == 0
        and value_head % HEAD_UNIT == 0
        and _size(call.key, 2) != 1
        and not (call.dropout != 0.0 and _size(call.query, 2) == 1)
    )


def _is_to_repeat() -> bool:
    """Whether torch was told to refuse what gives other numbers each time."""
    is_asked = torch.are_deterministic_algorithms_enabled()
    return is_asked and not torch.is_deterministic_algorithms_warn_only_enabled()


def _takes_flash(call: Attention, target: Target) -> bool:
    arch, head = int(target.arch), _size(call.query, 3)
    is_small = 86 <= arch <= 89 or arch >= 120
    is_trainable = head <= 192 or (not call.dropout > 0.0 and head > 224)
    return (
        arch >= 80
        and call.query.dtype in HALVES
        and call.mask is None
        and all(_size(tensor, 3) == head for tensor in call.tensors)
        and head <= MOST_FLASH_HEAD
        and (not (is_small and call.is_trained) or is_trainable)
        and (not call.is_causal or _size(call.query, 2) == _size(call.key, 2))
        and _heads_fit(call, takes_groups=True)
        and _rows_are_dense(call, is_one_enough=True)
    )


def _takes_efficient(call: Attention, target: Target) -> bool:
    """Heads come in units of 16 bytes: 8 elements of a half, 4 of a float32."""
    unit = 8 if call.query.dtype in HALVES else 4
    head, value_head = _size(call.query, 3), _size(call.value, 3)
    return (
        int(target.arch) >= 80
        and call.query.dtype in (*HALVES, torch.float32)
        and head == _size(call.key, 3)
        and head > 0
        and value_head > 0
        and head % unit == 0
        and value_head % unit == 0
        and _rows_are_dense(call, is_one_enough=False)
        and _heads_fit(call, takes_groups=False)
    )


def _heads_fit(call: Attention, *, takes_groups: bool) -> bool:
    queries, keys, values = (_size(tensor, 1) for tensor in call.tensors)
    if call.is_grouped and takes_groups:
        return keys == values and queries % keys == 0
    return queries == keys == values


def _rows_are_dense(call: Attention, *, is_one_enough: bool) -> bool:
    rows = all(tensor.stride(-1) == 1 for tensor in call.tensors)
    rows = rows or (is_one_enough and _size(call.query, 3) == 1)
    return rows and (call.mask is None or call.mask.stride(-1) == 1)


def _mask_fits(call: Attention) -> bool:
    mask = call.mask
    if mask is None:
        return True
    if mask.requires_grad or mask.dim() not in (2, 4):
        return False
    wanted = (_size(call.query, 0), _size(call.query, 1), _size(call.query, 2), _size(call.key, 2))
    return all(_size(mask, -axis) in (1, wanted[-axis]) for axis in range(1, mask.dim() + 1))


def _size(tensor: Any, axis: int) -> int:
    """A size; where it is symbolic, comparisons of it become Dynamo's guards, as in torch."""
    return tensor.size(axis)


@contextlib.contextmanager
def attention_as_on(target: Target) -> Generator[None]:
    """While it lasts, attention of tensors on CUDA is taken apart as on the target.

    Inside another one, as when compiled code is compiled again for its gradients, nothing changes.
    """
    if _is_taken_apart():
        yield
        return
    decide = _taken_apart(target)
    with kernels_registered([("scaled_dot_product_attention", decide, key) for key in ("AutogradCUDA", "CUDA")]):
        yield


def _is_taken_apart() -> bool:
    """Whether somebody has registered attention for CUDA. Seen on torch 2.11, 2.13 and 2.14."""
    return has_kernel("scaled_dot_product_attention", "AutogradCUDA")


def _taken_apart(target: Target) -> Callable[..., Any]:
    def scaled_dot_product_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        call = Attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        return _STEPS[choose_backend(call, target)](call)

    return scaled_dot_product_attention


def _cudnn(call: Attention) -> Any:
    out = torch.ops.aten._scaled_dot_product_cudnn_attention(
        *call.tensors,
        _added(call, LOWEST_OF_CUDNN),
        call.is_trained,
        call.dropout,
        call.is_causal,
        False,
        scale=call.scale,
    )
    return out[0]


def _flash(call: Attention) -> Any:
    head = _size(call.query, 3)
    missing = -head % HEAD_UNIT
    padded = call.tensors
    if missing:
        padded = tuple(torch.ops.aten.pad(tensor, [0, missing]) for tensor in call.tensors)
    scale = 1.0 / math.sqrt(head) if call.scale is None else call.scale
    out = torch.ops.aten._scaled_dot_product_flash_attention(*padded, call.dropout, call.is_causal, False, scale=scale)[
        0
    ]
    return torch.ops.aten.slice(out, -1, 0, head) if missing else out


def _efficient(call: Attention) -> Any:
    mask = _added(call)
    out = torch.ops.aten._scaled_dot_product_efficient_attention(
        *call.tensors,
        None if mask is None else _aligned(mask, call),
        call.is_trained,
        call.dropout,
        call.is_causal,
        scale=call.scale,
    )
    return out[0]


def _math(call: Attention) -> Any:
    out = torch.ops.aten._scaled_dot_product_attention_math(
        *call.tensors,
        _added(call),
        call.dropout,
        call.is_causal,
        None,
        scale=call.scale,
        enable_gqa=call.is_grouped,
    )
    return out[0]


_STEPS: dict[Backend, Callable[[Attention], Any]] = {
    Backend.CUDNN: _cudnn,
    Backend.FLASH: _flash,
    Backend.EFFICIENT: _efficient,
    Backend.MATH: _math,
}


def _added(call: Attention, lowest: float = -math.inf) -> Any:
    """The mask as it is added to the scores: 0 where a bool one is True, `lowest` elsewhere."""
    mask = call.mask
    if mask is None or mask.dtype != torch.bool:
        return mask
    masked = torch.ops.aten.scalar_tensor(lowest, dtype=call.query.dtype, device=mask.device)
    return torch.ops.aten.where.ScalarSelf(mask, 0.0, masked)


def _aligned(mask: Any, call: Attention) -> Any:
    """[batch, heads, queries, keys] with rows that begin at multiples of `MASK_UNIT` elements."""
    keys = _size(mask, -1)
    if keys % MASK_UNIT or any(mask.stride(axis) % MASK_UNIT for axis in range(mask.dim() - 1)):
        padded = torch.ops.aten.pad(mask, [0, MASK_UNIT - keys % MASK_UNIT])
        mask = torch.ops.aten.slice(padded, -1, 0, keys)
    return mask.expand(_size(call.query, 0), _size(call.query, 1), _size(call.query, 2), _size(call.key, 2))
