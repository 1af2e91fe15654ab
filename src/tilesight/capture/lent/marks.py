"""Which tensors a script has put on the lent device, told by their storage."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

LENT_DEVICE = torch.device("cuda", 0)
_FIRST_SWEEP = 1024


class Marks:
    """The storages that belong to the lent device.

    Views share a storage, and a tensor that is moved in place (`parameter.data = …`) takes the
    storage's mark with it. A weak reference keeps a dead storage's id from being given out again.
    """

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}
        self._sweep_at = _FIRST_SWEEP
        self._weak_reference: Any = import_module("torch.multiprocessing.reductions").StorageWeakRef

    def __contains__(self, tensor: object) -> bool:
        return isinstance(tensor, torch.Tensor) and storage_id(tensor) in self._held

    def put(self, tensor: torch.Tensor, *, on_lent: bool) -> None:
        """Say whether a tensor, and every view of it, is on the lent device; one without storage is not."""
        key = storage_id(tensor)
        if key is None:
            return
        if not on_lent:
            self._held.pop(key, None)
        elif key not in self._held:
            self._held[key] = self._weak_reference(tensor.untyped_storage())
            self._sweep()

    def _sweep(self) -> None:
        """Forget dead storages whenever their number may have doubled."""
        if len(self._held) < self._sweep_at:
            return
        self._held = {key: held for key, held in self._held.items() if not held.expired()}
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._held))


def storage_id(tensor: torch.Tensor) -> int | None:
    """The identity of a tensor's storage; None for one that has none, such as a sparse tensor."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def lent_device(device: Any) -> bool | None:
    """Whether a device, in any form torch takes, is the lent one; None where no device is named.

    Raises: RuntimeError: for a second GPU, as torch does on a machine that has one
    """
    if device is None or isinstance(device, bool):
        return None
    found = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if found.type == "cuda" and found.index not in (None, 0):
        raise RuntimeError(f"CUDA error: invalid device ordinal: {found}; one GPU is lent, cuda:0")
    return found.type == "cuda"
