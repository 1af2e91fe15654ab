"""Which elements of the script's tensors were ever written, watched call by call.

Seen to work on torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tilesight.capture.copies import CopyPlace, place_of_copy
from tilesight.capture.lent.mode import BUILT_IN, ON_CPU, tensors_in
from tilesight.capture.tensors import bytes_at
from tilesight.capture.undefined import (
    Flags,
    Period,
    Record,
    attach,
    flags_of,
    poison_word,
    record_of,
    set_flags,
    storage_of,
    words_of,
)
from tilesight.engine.launch import Undefined

_CREATIONS = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"},
)
_COPIES = frozenset({"clone", "contiguous", "to", "_to_copy", "reshape", "cat", "concat", "stack"})
_METADATA_ONLY = frozenset({"_resize_output_", "requires_grad_", "set_data", "swapaxes_", "swapdims_"})
_PARTIAL = frozenset(
    {
        "_index_put_impl_",
        "fill_diagonal_",
        "index_add_",
        "index_copy_",
        "index_fill_",
        "index_put_",
        "index_reduce_",
        "masked_fill_",
        "masked_scatter_",
        "put_",
        "scatter_",
        "scatter_add_",
        "scatter_reduce_",
    }
)
_Act = Callable[[Any, Sequence[Any], dict[str, Any]], Any]


class Provenance(TorchDispatchMode):
    """Watches, while its `with` block lasts, which elements of CPU tensors nothing has written.

    What torch.empty and its kind make is undefined, and so is what a storage gains when it grows. It
    holds NaN, or a large odd integer, until it is written: by an operator that writes all of a view, by
    a kernel, or by anybody else (numpy(), ctypes, an extension), whose writes show in the bytes. A copy
    of undefined elements is undefined; what else is computed from them counts as written. So does all
    that was made outside the block, in a thread of its own or by a tensor subclass. An item of one byte
    that is written without torch and with the very value that stands for undefined passes for unwritten.
    Copies of whole tensors are listed in `copies`, in the order of calls.

    Args:
        largest_bytes: a storage over this size counts as written: to fill it would cost memory and time
    """

    supports_higher_order_operators = True

    def __init__(self, *, largest_bytes: int = 2**32) -> None:
        super().__init__()
        self._largest_bytes = largest_bytes
        self._acts: dict[Any, _Act | None] = {}
        self._period = Period()
        self._depth = 0
        self.copies: list[CopyPlace] = []
        _hide_from_dynamo(type(self).__torch_dispatch__)

    def __enter__(self) -> Provenance:
        if self._depth == 0:
            self._period = Period()
        self._depth += 1
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._depth -= 1
        self._period.is_over = self._depth == 0

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """torch.compile works as ever; what it has compiled is watched."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No wrapper around each call: `_hide_from_dynamo` does the same for less."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            act = self._acts[func]
        except KeyError:
            act = self._acts[func] = self._act_for(func)
        if act is None:
            return func(*args, **kwargs) if kwargs else func(*args)
        return act(func, args, kwargs or {})

    def _act_for(self, func: Any) -> _Act | None:
        """What to do around an operator; None for one that neither makes nor writes what is watched."""
        if not isinstance(func, torch._ops.OpOverload):
            return None
        if func.namespace not in BUILT_IN:
            return self._call_apart
        name = func._schema.name.rpartition("::")[2]
        written = [
            (position, each.name)
            for position, each in enumerate(func._schema.arguments)
            if each.alias_info is not None and each.alias_info.is_write
        ]
        if name in ("resize_", "resize_as_") or (name in _CREATIONS and written):
            return partial(self._resize, written)
        if torch.Tag.inplace_view in func.tags or name in _METADATA_ONLY:
            return None
        if name in _CREATIONS:
            return self._create
        if name in ("copy_", "_foreach_copy_"):
            return self._copy_into
        if written:
            return partial(self._write, written, name in _PARTIAL)
        return self._copy if name in _COPIES else None

    def _create(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            storage = storage_of(result)
            if storage is not None and not result.is_quantized:
                self._begin(storage, result.dtype, 0)
        return result

    def _begin(self, storage: torch.UntypedStorage, dtype: torch.dtype, known: int) -> Record | None:
        """Watch a storage whose first `known` elements are written; fill the others with the poison."""
        size_bytes = storage.nbytes()
        elements = size_bytes // dtype.itemsize
        if storage.device.type != "cpu" or elements == 0 or size_bytes > self._largest_bytes:
            return None
        address = storage.data_ptr()
        written = np.zeros(elements, np.bool_)
        written[:known] = True
        bits = words_of(bytes_at(address, size_bytes), dtype.itemsize)
        record = Record(Undefined(written, dtype.itemsize, address), bits, poison_word(dtype), self._period)
        bits[known:] = record.poison
        attach(storage, record)
        return record

    def _resize(self, written: Any, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        (target,) = _tensors_at(written, args, kwargs)
        with torch._C.DisableTorchFunction():
            storage = storage_of(target)
            before = 0 if storage is None else storage.nbytes()
        result = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            if storage is not None and not target.is_quantized:
                self._follow(storage, target.dtype, before)
        return result

    def _follow(self, storage: torch.UntypedStorage, dtype: torch.dtype, before: int) -> Record | None:
        """The record of a storage after its size may have changed; what it has gained is undefined."""
        record = record_of(storage)
        if record is not None and record.is_about(storage):
            return record
        attach(storage, None)
        if storage.nbytes() <= before:
            return None
        if record is None:
            return self._begin(storage, dtype, -(-before // dtype.itemsize))
        if record.undefined.item_bytes != dtype.itemsize:
            return None
        old = record.undefined.written
        made = self._begin(storage, dtype, len(old))
        if made is not None:
            made.undefined.written[: len(old)] = old
        return made

    def _write(self, written: Any, is_partial: bool, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            for tensor in _tensors_at(written, args, kwargs):
                self._mark(tensor, is_partial)
        return result

    def _mark(self, tensor: Any, is_partial: bool) -> None:
        """Flag a written view; what part an indexed write has reached is left to show in the bytes."""
        storage = storage_of(tensor)
        record = record_of(storage)
        if storage is None or record is None or (is_partial and record.undefined.item_bytes > 1):
            return
        if not record.is_about(storage) or _covers(tensor, storage):
            attach(storage, None)
            return
        set_flags(record.undefined, tensor, np.True_)

    def _copy_into(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            targets, sources = args[0], args[1] if len(args) > 1 else kwargs["src"]
            pairs = zip(targets, sources, strict=True) if isinstance(targets, list | tuple) else ((targets, sources),)
            for target, source in pairs:
                self._hand_on(target, flags_of(source))
        return result

    def _hand_on(self, target: Any, flags: Flags | None) -> None:
        """Give a copy the flags of what was copied; None where all was written."""
        storage = storage_of(target)
        if flags is None or storage is None:
            self._mark(target, is_partial=False)
            return
        record = record_of(storage)
        if record is None or not record.is_about(storage):
            record = self._begin(storage, target.dtype, storage.nbytes() // target.dtype.itemsize)
        if record is not None:
            record.notice_writes()
            set_flags(record.undefined, target, flags)
            record.poison_unwritten()

    def _copy(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            given = args[0] if args else kwargs.get("tensors", kwargs.get("self", kwargs.get("input")))
            is_joined = isinstance(given, list | tuple)
            sources = list(given) if is_joined else [given]
            flags = [flags_of(source) for source in sources]
            storage = storage_of(result)
            if not is_joined and storage is not None and storage_of(given) is not None:
                self._note_copy(given, result)
            if storage is None or all(each is None for each in flags):
                return result
            if any(storage_of(source) is storage for source in sources):
                return result
            axis = args[1] if len(args) > 1 else kwargs.get("dim", 0)
            whole = _joined(sources, flags, func._schema.name == "aten::stack", axis) if is_joined else flags[0]
            if whole is not None and whole.size == result.numel():
                self._hand_on(result, whole.reshape(tuple(result.shape)))
        return result

    def _note_copy(self, source: Any, copy: Any) -> None:
        place = place_of_copy(source, copy)
        if place is not None and place.source != place.copy:
            self.copies.append(place)

    def _call_apart(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a library's operator; one that was written in Python is watched inside, by the outermost block."""
        others = _active_modes()
        if any(isinstance(mode, Provenance) for mode in others) or not _runs_here(func, args, kwargs):
            return func(*args, **kwargs)
        with _modes_replaced([self, *others]):
            return func(*args, **kwargs) if others else func.redispatch(ON_CPU, *args, **kwargs)


def fill_with_poison(tensor: torch.Tensor) -> torch.Tensor:
    """Put into a dense tensor what stands for undefined; to torch, and to Provenance, nothing has happened."""
    storage = tensor.untyped_storage()
    words_of(bytes_at(storage.data_ptr(), storage.nbytes()), tensor.element_size())[:] = poison_word(tensor.dtype)
    return tensor


def _tensors_at(places: Sequence[tuple[int, str]], args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The tensors among a call's arguments, by position or name, alone or in lists."""
    for position, name in places:
        given = args[position] if position < len(args) else kwargs.get(name)
        yield from given if isinstance(given, list | tuple) else (given,)


def _covers(tensor: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    """Whether a dense tensor is all of its storage."""
    return tensor.is_contiguous() and tensor.numel() * tensor.element_size() == storage.nbytes()


def _joined(sources: Sequence[Any], flags: Sequence[Flags | None], is_new_axis: bool, axis: Any) -> Flags | None:
    """The flags of torch.cat or torch.stack of tensors; None for an axis that goes by a name."""
    if not isinstance(axis, int):
        return None
    whole = [
        np.broadcast_to(np.True_, tuple(source.shape)) if each is None else each
        for source, each in zip(sources, flags, strict=True)
    ]
    if is_new_axis:
        return np.stack(whole, axis)
    return np.concatenate([each for each in whole if each.shape != (0,)], axis)


def _runs_here(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator has a kernel for the CPU and is given plain tensors only."""
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key(func.name(), "CPU")
    return has_kernel and all(
        storage is not None and storage.device.type == "cpu"
        for storage in (storage_of(tensor) for tensor in tensors_in((args, kwargs)))
    )


def _active_modes() -> list[Any]:
    """The dispatch modes of this thread, the innermost last."""
    modes: Any = import_module("torch.utils._python_dispatch")
    return list(modes._get_current_dispatch_mode_stack())


@contextlib.contextmanager
def _modes_replaced(wanted: Sequence[Any]) -> Generator[None]:
    """While it lasts these are the dispatch modes, the innermost last."""
    modes: Any = import_module("torch.utils._python_dispatch")
    with modes._disable_current_modes():
        for mode in wanted:
            modes._push_mode(mode)
        try:
            yield
        finally:
            for _ in wanted:
                modes._pop_mode()


def _hide_from_dynamo(function: Any) -> None:
    """Keep torch.compile from tracing a function and what it calls."""
    frames: Any = import_module("torch._C._dynamo.eval_frame")
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
