"""What eager PyTorch would launch: one ATen operator after another, with the bytes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch

from tilesight.ledger.graph import OpTraffic

_python_dispatch: Any = import_module("torch.utils._python_dispatch")


class _OpRecorder(_python_dispatch.TorchDispatchMode):
    """Notes each ATen operator that reaches the device, and the storages it reads and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[OpTraffic] = []
        self._names: dict[int, str] = {}
        self._taken: set[str] = set()
        self._alive: list[Any] = []

    def name_of(self, tensor: torch.Tensor, hint: str = "") -> str:
        """A stable name for the tensor's storage, which no other has; views share it."""
        key = tensor.untyped_storage()._cdata
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
        if not _tensors(result) and not _written_arguments(function, args):
            return result  # asks for a device or a size: moves nothing
        reads = _tensors((args, kwargs or {}))
        writes = _tensors(result)
        owned = {self.name_of(tensor) for tensor in reads}
        name = str(function).removeprefix("aten.")
        written = [t for t in writes if self.name_of(t, f"{name.split('.')[0]}_{len(self.ops)}") not in owned]
        written += _written_arguments(function, args)
        self.ops.append(
            OpTraffic(
                name=f"{name.split('.')[0]}_{len(self.ops)}",
                target=str(function),
                reads=self._bytes_of(reads),
                writes=self._bytes_of(written),
                is_view=not written,
            )
        )
        return result

    def _bytes_of(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[str, int], ...]:
        return tuple({self.name_of(t): unique_bytes(t) for t in tensors}.items())


def unique_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's distinct elements: a broadcast axis (stride 0) counts once."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= 1 if stride == 0 and size > 0 else size
    return int(elements) * tensor.element_size()


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _written_arguments(function: Any, args: tuple[Any, ...]) -> list[torch.Tensor]:
    schema = function._schema.arguments
    return [
        tensor
        for argument, value in zip(schema, args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in _tensors(value)
    ]


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
    returned = _tensors(result)
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
