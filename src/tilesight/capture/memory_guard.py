"""A bound on what torch may allocate: an operator whose result does not fit is not run."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from tilesight.errors import MemoryCapError

_python_dispatch: Any = import_module("torch.utils._python_dispatch")

LEAST_ELEMENTS = 4096
"""Of the inputs: the outer product of fewer is 128 MiB at most, and asking costs each operator some 50 µs."""


def allocations_bounded(most_bytes: int, inputs: Sequence[Any]) -> AbstractContextManager[object]:
    """While it lasts an operator that would make too much raises instead; nothing is watched for small inputs.

    Args:
        most_bytes: of the tensors that are made meanwhile and still live
        inputs: tensors and other values that the work begins with
    """
    elements = sum(value.numel() for value in inputs if isinstance(value, torch.Tensor))
    return MemoryGuard(most_bytes) if elements >= LEAST_ELEMENTS else nullcontext()


class MemoryGuard(_python_dispatch.TorchDispatchMode):
    """Asks torch, on meta tensors, how large an operator's result will be before the operator runs.

    An operator that has no kernel for meta tensors, or whose result's size is in its data, is run unasked. Seen on
    torch 2.11 and 2.13.

    Raises: MemoryCapError: in the operator's place
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most_bytes = most_bytes
        self._made: list[tuple[weakref.ref[torch.Tensor], int]] = []

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """torch.compile works as ever; what it has compiled is watched."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload) or func.is_view or func._schema.is_mutable:
            return func(*args, **kwargs)
        size = _bytes_of_result(func, args, kwargs)
        if size and self._live_bytes() + size > self._most_bytes:
            raise MemoryCapError(
                f"{func} would make {size:,} bytes beside the {self._live_bytes():,} that are held",
                expected=f"at most memory_cap_bytes = {self._most_bytes:,}",
                next_step="raise it (check --memory-cap, ExecutionOptions(memory_cap_bytes=…)) or leave this size out",
            )
        result = func(*args, **kwargs)
        self._made += [(weakref.ref(each), each.nbytes) for each in _tensors(result)]
        return result

    def _live_bytes(self) -> int:
        self._made = [(tensor, size) for tensor, size in self._made if tensor() is not None]
        return sum(size for _, size in self._made)


def _bytes_of_result(func: Any, args: Any, kwargs: dict[str, Any]) -> int:
    """What the operator's results take; 0 where torch can't tell without running it."""
    like = {**tree_map(_as_meta, kwargs), **({"device": torch.device("meta")} if "device" in kwargs else {})}
    try:
        return sum(each.nbytes for each in _tensors(func(*tree_map(_as_meta, args), **like)))
    except Exception:
        return 0


def _as_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _tensors(value: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]
