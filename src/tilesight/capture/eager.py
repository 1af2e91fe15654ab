"""What eager PyTorch would launch: one ATen operator after another, with the bytes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch

from tilesight.capture.eager_steps import Part, Step, call_of, steps_of, storage_of, tensors_in
from tilesight.ledger.graph import OpTraffic, TensorBytes
from tilesight.ledger.slices import Slice, bytes_together, slice_of

_python_dispatch: Any = import_module("torch.utils._python_dispatch")


class _OpRecorder(_python_dispatch.TorchDispatchMode):
    """Notes each ATen operator that reaches the device, and the storages it reads and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[OpTraffic] = []
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self._alive: list[Any] = []
        self._slices: dict[tuple[str, Slice], str] = {}

    def name_of(self, tensor: torch.Tensor, hint: str = "") -> str:
        """A stable name for the tensor's storage, which no other has; views share it."""
        key = storage_of(tensor)
        if key not in self._names:
            name = hint or f"t{len(self._names)}"
            self._names[key] = f"{name}_{len(self._names)}" if name in self._taken else name
            self._taken.add(self._names[key])
            self._alive.append(tensor)
        return self._names[key]

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        call = call_of(function, args, kwargs or {}, result)
        for tensor in call.tensors():
            self.name_of(tensor)
        name = str(function).removeprefix("aten.").split(".")[0]
        for tensor in call.fresh:
            self.name_of(tensor, f"{name}_{len(self.ops)}")
        for step in steps_of(call):
            self._note(step)
        return result

    def _note(self, step: Step) -> None:
        reads, writes = self._bytes_of(step.reads), self._bytes_of(step.writes)
        name = f"{step.target.removeprefix('aten.').split('.')[0]}_{len(self.ops)}"
        self.ops.append(OpTraffic(name, step.target, reads, writes, is_bound=step.is_bound))

    def _bytes_of(self, parts: Sequence[Part]) -> tuple[TensorBytes, ...]:
        """Bytes by name. Slices of one storage have names of their own, and together no more bytes than it."""
        by_storage: dict[str, list[Part]] = {}
        for tensor, count in parts:
            by_storage.setdefault(self.name_of(tensor), []).append((tensor, count))
        return tuple(each for name, found in by_storage.items() for each in self._of_storage(name, found))

    def _of_storage(self, name: str, parts: Sequence[Part]) -> list[TensorBytes]:
        held = parts[0][0].untyped_storage().nbytes()
        chosen = [count for _, count in parts if count is not None]
        slices = {_slice_of(tensor): None for tensor, count in parts if count is None}
        if any(each.bytes >= held for each in slices) or sum(chosen) + bytes_together(slices, held) >= held:
            return [(name, held)]
        whole = [(self._part_name(name, held, each), each.bytes) for each in slices]
        return [*whole, *((self._part_name(name, held, None), count) for count in chosen)]

    def _part_name(self, name: str, held: int, part: Slice | None) -> str:
        """What a slice of a storage is called, the same each time; what an index chooses is a part of its own."""
        if part is not None and (name, part) in self._slices:
            return self._slices[name, part]
        own = f"{name}[{len(self._taken)}]"
        self._taken.add(own)
        if part is not None:
            self._slices[name, part] = own
        view = OpTraffic(own, "view", ((name, held),), ((own, held),), is_view=True)
        self.ops.append(view)
        return own


def _slice_of(tensor: torch.Tensor) -> Slice:
    return slice_of(tensor.shape, tensor.stride(), int(tensor.storage_offset()), tensor.element_size())


def record_eager(
    function: Callable[..., Any], inputs: Sequence[Any], *, backward: bool = False
) -> tuple[list[OpTraffic], tuple[str, ...]]:
    """(operators in order, names of the tensors returned) of one eager call.

    The operators are those that reach the device: composite ones appear as what they are made of.

    Args:
        function: a function or module on fake tensors
        inputs: fake tensors and plain values
        backward: the operators of one backward pass too, from a gradient of every output to one of every input and
            weight that asks for it, which count as returned
    """
    recorder = _OpRecorder()
    for position, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            recorder.name_of(value, f"input{position}")
    if isinstance(function, torch.nn.Module):
        for name, tensor in (*function.named_parameters(), *function.named_buffers()):
            recorder.name_of(tensor, name)
    with torch.set_grad_enabled(backward), recorder:
        result = function(*inputs)
    returned = tensors_in(result)
    if backward:
        returned = returned + _gradients(recorder, function, inputs, returned)
    return recorder.ops, tuple(recorder.name_of(tensor) for tensor in returned)


def _gradients(
    recorder: _OpRecorder, function: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """What a backward pass leaves behind; the gradients that it starts from are inputs, and are not recorded."""
    weights = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    leaves = [each for each in (*inputs, *weights) if isinstance(each, torch.Tensor) and each.requires_grad]
    ends = [each for each in outputs if each.requires_grad]
    if not ends or not leaves:
        return []
    starts = [torch.empty_like(each) for each in ends]
    for position, tensor in enumerate(starts):
        recorder.name_of(tensor, f"gradient{position}")
    # in this thread: a process that has run a backward pass before has no other for a GPU that is not here
    with torch.autograd.set_multithreading_enabled(False), recorder:
        found: Any = torch.autograd.grad(ends, leaves, starts, allow_unused=True)
    return [each for each in found if each is not None]
