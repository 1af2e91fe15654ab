"""torch.Tensor's own methods that move a tensor or say where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilesight.capture.lent.marks import LENT_DEVICE, Marks, lent_device, storage_id
from tilesight.capture.tensors import true_device

_BASE = torch._C.TensorBase
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")
_NEW = ("new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "new_empty_strided")


def place_answers(marks: Marks) -> dict[str, Any]:
    """What torch.Tensor says of where it is, by attribute."""
    return {
        "device": property(lambda self: LENT_DEVICE if self in marks else true_device(self)),
        "is_cuda": property(lambda self: self in marks or true_device(self).type == "cuda"),
        "is_cpu": property(lambda self: self not in marks and true_device(self).type == "cpu"),
        "get_device": lambda self: LENT_DEVICE.index if self in marks else _plainly(_BASE.get_device, self),
    }


def move_answers(marks: Marks, first_use: Callable[[], None]) -> dict[str, Any]:
    """The methods of torch.Tensor that move a tensor, or make one like it, by name.

    Args:
        marks: which tensors are on the lent device
        first_use: called whenever a tensor is moved there
    """
    move = _mover(marks, first_use)
    answers = {
        "grad": _gradient(marks),
        "type": _typer(marks, move),
        "to": _to(marks, move),
        "cpu": lambda self, memory_format=torch.preserve_format: move(
            self, False, ("cpu",), {"memory_format": memory_format}
        ),
        "cuda": _cuda(move),
        "pin_memory": lambda self, device=None: self,
        "record_stream": lambda self, stream: None,
        "__deepcopy__": _copier(marks),
    }
    return answers | {name: _made_like(getattr(_BASE, name), marks) for name in _NEW}


def like_answers(marks: Marks) -> dict[str, Any]:
    """Functions to put in torch, by name."""
    return {name: _made_like(getattr(torch, name), marks) for name in _LIKE}


def _plainly(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call torch's own method: a torch function mode would look it up on torch.Tensor and find ours."""
    with torch._C.DisableTorchFunction():
        return method(*args, **kwargs)


def _mover(marks: Marks, first_use: Callable[[], None]) -> Callable[..., torch.Tensor]:
    def move(tensor: Any, on_lent: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """`tensor.to(…)` on the CPU; a copy where the tensor leaves the device it was on."""
        if on_lent:
            first_use()
        result = _plainly(_BASE.to, tensor, *args, **kwargs)
        if (tensor in marks) != on_lent:
            if storage_id(result) == storage_id(tensor):
                result = result.clone()
            marks.put(result, on_lent=on_lent)
        return result

    return move


def _to(marks: Marks, move: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def to(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        place = args[0] if args else kwargs.get("device", kwargs.get("other"))
        if isinstance(place, torch.Tensor):
            on_lent: bool | None = place in marks
        else:
            on_lent = None if isinstance(place, torch.dtype) else lent_device(place)
        if on_lent is None or (not on_lent and not _is_cpu(place)):
            return _plainly(_BASE.to, self, *args, **kwargs)
        if isinstance(place, torch.Tensor):
            return move(self, on_lent, args, kwargs)
        args = ("cpu", *args[1:]) if args else ()
        return move(self, on_lent, args, kwargs if args else kwargs | {"device": "cpu"})

    return to


def _is_cpu(place: Any) -> bool:
    return isinstance(place, torch.Tensor) or torch.device(place).type == "cpu"


def _cuda(move: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def cuda(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> torch.Tensor:
        lent_device("cuda" if device is None else device)
        return move(self, True, ("cpu",), kwargs)

    return cuda


def _gradient(marks: Marks) -> property:
    """A lent tensor's gradient is lent, whoever computed it."""
    plain: Any = _BASE.grad

    def read(self: Any) -> Any:
        found = _plainly(plain.__get__, self)
        if found is not None and self in marks:
            marks.put(found, on_lent=True)
        return found

    return property(read, plain.__set__, plain.__delete__)


def _typer(marks: Marks, move: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def type_(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        """The type's name, which says cuda for a lent tensor; or the tensor as that type."""
        if dtype is None:
            name = _plainly(_BASE.type, self)
            return name.replace("torch.", "torch.cuda.", 1) if self in marks else name
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            plain = _plainly(_BASE.type, self, dtype.replace("cuda.", "", 1))
            return move(plain, True, ("cpu",), {})
        return _plainly(_BASE.type, self, dtype, non_blocking, **kwargs)

    return type_


def _copier(marks: Marks) -> Callable[..., torch.Tensor]:
    plain = torch.Tensor.__deepcopy__

    def deepcopy(self: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        result: torch.Tensor = plain(self, memo)
        marks.put(result, on_lent=self in marks)
        return result

    return deepcopy


def _made_like(plain: Callable[..., torch.Tensor], marks: Marks) -> Callable[..., torch.Tensor]:
    """A function whose result is where its model is, unless the caller names the CPU.

    Below, torch fills in the model's own device, which is the CPU in any case.
    """

    def make(*args: Any, **kwargs: Any) -> torch.Tensor:
        result = plain(*args, **kwargs)
        if lent_device(kwargs.get("device")) is False:
            marks.put(result, on_lent=False)
        return result

    return make
