"""Every ATen call of a script: a `cuda` device becomes the CPU, and results keep the mark of their inputs.

Autograd's own calls come through here too, so gradients are where their tensors are. Seen to work on
torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tilesight.capture.lent.marks import Marks, lent_device, storage_id

BUILT_IN = frozenset({"aten", "prim", "prims", "inductor", "quantized", "profiler", "c10d"})
ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
Suspended = Callable[[], contextlib.AbstractContextManager[None]]


class LentDeviceMode(TorchDispatchMode):
    """Runs what a script computes on the lent device on the CPU.

    Args:
        marks: which tensors are on the lent device
        first_use: called whenever a tensor is made there
        suspended: takes the lent device away for a while
    """

    supports_higher_order_operators = True

    def __init__(self, marks: Marks, first_use: Callable[[], None], suspended: Suspended) -> None:
        super().__init__()
        self._marks = marks
        self._first_use = first_use
        self.suspended = suspended

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        is_named = lent_device(kwargs.get("device")) is True
        if is_named:
            kwargs["device"] = torch.device("cpu")
            kwargs.pop("pin_memory", None)
            self._first_use()
        given = list(tensors_in((args, kwargs)))
        result = self._call(func, args, kwargs)
        if is_named or any(tensor in self._marks for tensor in given):
            mark_results(self._marks, result, given)
        return result

    def _call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Call an operator; one that was written in Python sees the lent device inside too."""
        if isinstance(func, torch._ops.OpOverload) and func.namespace not in BUILT_IN:
            with self:
                return func.redispatch(ON_CPU, *args, **kwargs)
        return func(*args, **kwargs)


def mark_results(marks: Marks, result: Any, given: Sequence[torch.Tensor]) -> None:
    """Put the tensors that a call has made on the lent device; what it was given stays where it is."""
    own = {storage_id(tensor) for tensor in given}
    for made in tensors_in(result):
        if storage_id(made) not in own:
            marks.put(made, on_lent=True)


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested containers."""
    pytree: Any = import_module("torch.utils._pytree")
    return (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor))


def lent_suspended() -> contextlib.AbstractContextManager[None]:
    """Take away the device that is lent in this thread, for torch's compiler; nothing where none is."""
    modes: Any = import_module("torch.utils._python_dispatch")
    for mode in modes._get_current_dispatch_mode_stack():
        if isinstance(mode, LentDeviceMode):
            return mode.suspended()
    return contextlib.nullcontext()
