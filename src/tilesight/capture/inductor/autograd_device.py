"""Let C++ autograd trace a backward graph on a pretended CUDA device in a CPU build of torch.

For gradients on an accelerator autograd asks torch's CUDA hooks whether there is one, and the CUDA device
guard for streams and events. A CPU build answers no and refuses; a CUDA build that finds no GPU already
answers what is needed here. Both are C++ objects without data, so each is given a copy of its own virtual
table with the few answers replaced; slots are counted in the headers that the installed torch ships.
Seen to work on torch 2.11.0, 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Generator
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

_TORCH = Path(torch.__file__).parent
_HOOKS = ("ATen/detail/AcceleratorHooksInterface.h", "AcceleratorHooksInterface")
_GUARD = ("c10/core/impl/DeviceGuardImplInterface.h", "DeviceGuardImplInterface")
_CPU, _CUDA = 0, 1  # c10::DeviceType
_BEFORE_TABLE = 2
"""Words before a virtual table's first function: offset to top and type (Itanium C++ ABI §2.5)."""

_VIRTUAL = re.compile(r"\bvirtual\s+(?:[\w:<>*&\s]+?[\s*&])?(~?\w+)\s*\(")

_YES = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(lambda this: True)
_NO_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int8)(lambda this, index: False)
_NONE = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)(lambda this: 0)
_NO_EVENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(lambda this, event: None)
_HAPPENED = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p)(lambda this, event: True)

_ANSWERS: dict[str, dict[str, Any]] = {
    "a GPU is built for": {"isBuilt": _YES, "hasPrimaryContext": _NO_CONTEXT},
    "counts none": {"deviceCount": _NONE},
    "silent": {
        "record": _NO_EVENT,
        "block": _NO_EVENT,
        "queryEvent": _HAPPENED,
        "getDefaultStream": "getStream",
    },
}
"""What each copy of a table answers instead; a name stands for the function in that slot."""


@contextlib.contextmanager
def autograd_on_pretended_cuda() -> Generator[None]:
    """While it lasts, fake CUDA tensors can be indexed, copied and differentiated where no GPU is."""
    if _gpu_is_here():
        yield
        return
    with _hooks_replaced(), _guard_replaced():
        yield


def _gpu_is_here() -> bool:
    """The driver's answer, also while `torch.cuda.is_available` answers for a device that is lent."""
    return hasattr(torch._C, "_cuda_getDeviceCount") and torch._C._cuda_getDeviceCount() > 0


@contextlib.contextmanager
def _hooks_replaced() -> Generator[None]:
    library = ctypes.CDLL(str(_TORCH / "lib" / "libtorch_cpu.so"))
    find: Any = library._ZN2at6detail12getCUDAHooksEv
    find.restype = ctypes.c_void_p
    table = ctypes.c_void_p.from_address(find())
    before = table.value
    assert before is not None
    table.value = _object(_copied_table(before, _HOOKS, "a GPU is built for")).value
    try:
        yield
    finally:
        table.value = before


@contextlib.contextmanager
def _guard_replaced() -> Generator[None]:
    registry = _guard_registry()
    silent = ctypes.addressof(_silent_guard())
    before = registry[_CUDA]
    registry[_CUDA] = silent
    try:
        yield
    finally:
        registry[_CUDA] = before


def _guard_registry() -> Any:
    """The device guards as addresses: `c10::impl::device_guard_impl_registry`, exported, one a device type."""
    return (ctypes.c_void_p * 2).in_dll(_libc10(), "_ZN3c104impl26device_guard_impl_registryE")


def _libc10() -> ctypes.CDLL:
    return ctypes.CDLL(str(_TORCH / "lib" / "libc10.so"))


@lru_cache(maxsize=1)
def _silent_guard() -> Any:
    """torch's own guard for a CUDA that is not here, which does nothing, with events that do nothing either.

    torch puts it in the place of a guard that counts no devices: the one of a CUDA build that finds no GPU,
    or, where there is none, one that is made for the moment. A guard that torch has put there is not replaced
    again: torch 2.11 frees it then.
    """
    registry = _guard_registry()
    before = registry[_CUDA]
    counts_none = _object(_copied_table(_table_of(registry[_CPU]), _GUARD, "counts none"))
    if before is None:
        registry[_CUDA] = ctypes.addressof(counts_none)
    _libc10()._ZN3c104impl24ensureCUDADeviceGuardSetEv()
    own = registry[_CUDA]
    assert own not in (None, ctypes.addressof(counts_none)), "torch set no guard"
    table = _copied_table(_table_of(own), _GUARD, "silent")
    if before is None:
        registry[_CUDA] = None
    return _object(table)


def _table_of(address: int) -> int:
    table = ctypes.c_void_p.from_address(address).value
    assert table is not None
    return table


def _object(table: Any) -> Any:
    """A C++ object that is nothing but its virtual table."""
    return ctypes.c_void_p(ctypes.addressof(table) + _BEFORE_TABLE * ctypes.sizeof(ctypes.c_void_p))


@lru_cache(maxsize=8)
def _copied_table(address: int, interface: tuple[str, str], answers: str) -> Any:
    """A copy of the virtual table at `address` with some answers replaced; kept, for C++ may keep it too."""
    slots = virtual_slots(*interface)
    copy = (ctypes.c_void_p * (_BEFORE_TABLE + _MOST_FUNCTIONS))()
    ctypes.memmove(copy, address - _BEFORE_TABLE * ctypes.sizeof(ctypes.c_void_p), ctypes.sizeof(copy))
    for name, answer in _ANSWERS[answers].items():
        function = copy[_BEFORE_TABLE + slots.index(answer)] if isinstance(answer, str) else _pointer(answer)
        copy[_BEFORE_TABLE + slots.index(name)] = function
    return copy


def _pointer(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


_MOST_FUNCTIONS = 100
"""More than either class has (about 80 and 25); what lies behind a table is copied and never called."""


@lru_cache(maxsize=4)
def virtual_slots(header: str, name: str) -> tuple[str, ...]:
    """The virtual functions of a C++ class in the order of its table; a destructor takes two slots.

    Args:
        header: path below torch's include folder
        name: the class, whose bases have no virtual functions
    """
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", (_TORCH / "include" / header).read_text(), flags=re.DOTALL)
    start = re.search(rf"(?:struct|class)\s+(?:\w+_API\s+)?{name}\s*\{{", text)
    assert start is not None, f"{header} no longer defines {name}"
    body = text[start.end() : text.index("\n};", start.end())]
    names = [found.group(1) for found in _VIRTUAL.finditer(body)]
    return tuple(slot for name in names for slot in ((name, name) if name.startswith("~") else (name,)))
