"""Functions and classes of torch that take a device and are no ATen call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from typing import Any

import torch

from tilesight.capture.lent.marks import LENT_DEVICE, Marks, lent_device
from tilesight.capture.lent.mode import Suspended, mark_results, tensors_in


def torch_answers(marks: Marks, suspended: Suspended) -> dict[str, Any]:
    """Attributes to put in torch, by name.

    Args:
        marks: which tensors are on the lent device
        suspended: takes the lent device away for torch's compiler
    """
    return {
        "Generator": _generator_class(),
        "load": _load_on_cpu(torch.load, marks),
        "compile": _compile_apart(torch.compile, marks, suspended),
        "is_autocast_enabled": _asked_of_cpu(torch.is_autocast_enabled),
        "get_autocast_dtype": _asked_of_cpu(torch.get_autocast_dtype),
        "set_autocast_dtype": _asked_of_cpu(torch.set_autocast_dtype),
    }


def _generator_class() -> type:
    """torch.Generator, where one for the lent device is a CPU one that answers `cuda:0`."""
    plain: Any = torch.Generator

    def create(cls: Any, device: Any = "cpu") -> Any:
        is_lent = lent_device(device) is True
        made = plain.__new__(cls, "cpu" if is_lent else device)
        made.is_lent = is_lent
        return made

    def device(self: Any) -> torch.device:
        return LENT_DEVICE if self.is_lent else plain.device.__get__(self)

    return type("Generator", (plain,), {"__new__": create, "device": property(device)})


def _load_on_cpu(load: Callable[..., Any], marks: Marks) -> Callable[..., Any]:
    def load_here(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        """torch.load; what was saved from a GPU, or is asked for on one, comes to the lent device."""
        is_place = isinstance(map_location, str | int | torch.device)
        if not is_place or lent_device(map_location) is not True:
            return load(file, map_location, *args, **kwargs)
        found = load(file, "cpu", *args, **kwargs)
        for tensor in tensors_in(found):
            marks.put(tensor, on_lent=True)
        return found

    return load_here


class _CompiledApart:
    """A compiled function whose every call is made while nothing is lent.

    What it returns is on the lent device when one of its inputs, or a weight of its module, is.
    """

    def __init__(self, compiled: Callable[..., Any], model: Any, marks: Marks, suspended: Suspended) -> None:
        self._compiled = compiled
        self._model = model
        self._marks = marks
        self._suspended = suspended

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = list(tensors_in((args, kwargs)))
        with self._suspended():
            result = self._compiled(*args, **kwargs)
        owned = self._model.state_dict(keep_vars=True) if isinstance(self._model, torch.nn.Module) else ()
        given += tensors_in(owned)
        if any(tensor in self._marks for tensor in given):
            mark_results(self._marks, result, given)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_compiled"], name)


def _compile_apart(compile_: Callable[..., Any], marks: Marks, suspended: Suspended) -> Callable[..., Any]:
    def compile_lent(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda function: compile_lent(function, **options)
        compiled = compile_(model, **options)
        if not isinstance(compiled, torch.nn.Module):
            return _CompiledApart(compiled, model, marks, suspended)
        compiled.forward = _CompiledApart(compiled.forward, model, marks, suspended)  # a module stays one
        return compiled

    return compile_lent


def _asked_of_cpu(ask: Callable[..., Any]) -> Callable[..., Any]:
    """A question about autocast on the lent device, asked of the CPU, on which it runs."""

    def asked(device_type: Any = "cuda", *rest: Any) -> Any:
        return ask("cpu" if device_type == LENT_DEVICE.type else device_type, *rest)

    return asked


def autocast_answers() -> dict[str, Any]:
    """Attributes to put on torch.autocast: autocast of the lent device is the CPU's, in its dtype."""
    plain: Callable[..., None] = torch.autocast.__init__

    def start(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == LENT_DEVICE.type:
            device_type, dtype = "cpu", dtype or torch.float16
        plain(self, device_type, dtype, *args, **kwargs)

    return {"__init__": start}


def thread_answers(mode: Any) -> dict[str, Any]:
    """Attributes to put on threading.Thread: a dispatch mode holds for one thread, so each new one enters it."""
    plain = threading.Thread.start

    def start(self: threading.Thread) -> None:
        run = self.run

        def run_in_mode() -> None:
            with mode:
                run()

        self.run = run_in_mode
        plain(self)

    return {"start": start}


@contextlib.contextmanager
def literals_reach_the_mode() -> Generator[None]:
    """Let torch.tensor build its tensor on the CPU and move it in a call that a mode sees."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
