"""Inputs for ATen operators: the calls that torch's own operator database makes, forward and backward."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

LARGEST_INPUT = 200_000
SAMPLES_TRIED = 12
IDLE_SAMPLES = 2
"""An operator is left after so many samples in a row that lead to no call worth keeping."""

OPERATOR_SYNTAX = {"__or__": "bitwise_or", "__ior__": "bitwise_or"}
SCALAR = {torch.int64: 3}


@dataclass(frozen=True)
class AtenCall:
    """One call of an operator such as `add.Tensor`; `function` is torch's own."""

    key: str
    dtype: torch.dtype
    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def key_of(function: Any) -> str:
    """`add.Tensor` or, for the default overload, `add`."""
    return str(function).removeprefix("aten.").removesuffix(".default")


def operator_of(key: str) -> Any:
    """torch's operator of a key; None where torch has none of that name."""
    packet, _, overload = key.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


class CallRecorder(TorchDispatchMode):
    """Keeps the first calls of each wanted operator that succeed, with copies of their arguments."""

    def __init__(self, wanted: Collection[str], most: int) -> None:
        super().__init__()
        self.wanted, self.most = wanted, most
        self.dtype = torch.float32
        self.kept = 0
        self.calls: dict[tuple[str, torch.dtype], list[AtenCall]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        key = key_of(func)
        if key not in self.wanted or not self.has_room(key, args, kwargs):
            return func(*args, **kwargs)
        call = AtenCall(key, self.dtype, func, tuple(copy_tensors(args)), copy_tensors(kwargs))
        result = func(*args, **kwargs)
        self.keep(call)
        return result

    def has_room(self, key: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether one more call of the operator in this dtype is wanted, and this one can be copied."""
        return len(self.calls.get((key, self.dtype), ())) < self.most and _is_small_and_plain(args, kwargs)

    def keep(self, call: AtenCall) -> None:
        self.calls.setdefault((call.key, call.dtype), []).append(call)
        self.kept += 1


def _is_small_and_plain(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
    return all(
        type(each) in (torch.Tensor, torch.nn.Parameter)
        and each.device.type == "cpu"
        and each.layout == torch.strided
        and 0 < each.numel() <= LARGEST_INPUT
        for each in tensors
    )


def copy_tensors(values: Any) -> Any:
    """Tensors copied with their strides, everything else as it is."""

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach()
        copied = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        return copied.copy_(value)

    return tree_map(copy, values)


def record_calls(
    operators: Sequence[Any], wanted: Collection[str], dtypes: Sequence[torch.dtype], most: int
) -> list[AtenCall]:
    """The calls of wanted ATen operators that the database's samples lead to.

    Operators that torch takes apart before they get there are called directly, with the samples of
    the entry that bears their name.

    Args:
        operators: OpInfo objects of torch.testing's operator database
        wanted: keys such as `add.Tensor`
        most: calls kept for each operator and dtype
    """
    recorder = CallRecorder(wanted, most)
    for operator in operators:
        for dtype in dtypes:
            recorder.dtype = dtype
            if dtype in operator.dtypes:
                _run_samples(operator, dtype, recorder)
    reached = {key for key, _ in recorder.calls}
    for key in wanted:
        if key not in reached:
            _call_directly(key, operators, dtypes, recorder)
    return [call for calls in recorder.calls.values() for call in calls]


def _run_samples(operator: Any, dtype: torch.dtype, recorder: CallRecorder) -> None:
    idle = 0
    for sample in islice(_samples(operator, dtype), SAMPLES_TRIED):
        before = recorder.kept
        for variant in _variants(operator, sample):
            try:
                with recorder:
                    _run_backward(variant(sample.input, *sample.args, **sample.kwargs))
            except Exception:  # a variant need not take every sample: it may not be writable in place
                continue
        idle = idle + 1 if recorder.kept == before else 0
        if idle == IDLE_SAMPLES:
            return


def _samples(operator: Any, dtype: torch.dtype) -> Iterator[Any]:
    torch.manual_seed(20)
    trains = dtype.is_floating_point and operator.supports_autograd
    try:
        yield from operator.sample_inputs("cpu", dtype, requires_grad=trains)
    except Exception:  # some generators need packages or devices that are not here
        return


def _variants(operator: Any, sample: Any) -> Iterator[Any]:
    """The operator, the same in place on a copy, and with `out=`."""
    yield operator.op
    if operator.inplace_variant is not None:
        yield lambda value, *args, **kwargs: operator.inplace_variant(_detached(value), *args, **kwargs)
    if operator.supports_out:
        yield lambda value, *args, **kwargs: _call_with_out(operator.op, _detached(value), *args, **kwargs)


def _detached(value: Any) -> Any:
    return tree_map(lambda each: each.detach().clone() if isinstance(each, torch.Tensor) else each, value)


def _call_with_out(function: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = _detached(args), _detached(kwargs)
    expected = function(value, *args, **kwargs)
    if not isinstance(expected, torch.Tensor):
        return None
    return function(value, *args, **kwargs, out=torch.empty_like(expected))


def _run_backward(outputs: Any) -> None:
    flat = [each for each in tree_flatten(outputs)[0] if isinstance(each, torch.Tensor) and each.requires_grad]
    if flat:
        torch.autograd.backward(flat, [torch.randn_like(each) for each in flat])


def _call_directly(key: str, operators: Iterable[Any], dtypes: Sequence[torch.dtype], recorder: CallRecorder) -> None:
    function, name = operator_of(key), _plain_name(key)
    if function is None:
        return
    for operator in operators:
        if name not in _names(operator):
            continue
        for dtype in dtypes:
            recorder.dtype = dtype
            if dtype in operator.dtypes:
                for sample in islice(_samples(operator, dtype), SAMPLES_TRIED):
                    _try_forms(key, function, operator, sample, recorder)


def _plain_name(key: str) -> str:
    packet = key.partition(".")[0]
    return OPERATOR_SYNTAX.get(packet, packet).strip("_").removeprefix("special_").removeprefix("linalg_")


def _names(operator: Any) -> set[str]:
    names = [operator.name, operator.aten_name or "", *(alias.name for alias in operator.aliases)]
    return {name.rpartition(".")[2] for name in names}


def _try_forms(key: str, function: Any, operator: Any, sample: Any, recorder: CallRecorder) -> None:
    """The sample as it is, with a number for one of its two tensors, and with an output to write to."""
    args, kwargs = _detached((sample.input, *sample.args)), _detached(sample.kwargs)
    number = SCALAR.get(recorder.dtype, 1.5)
    forms = [(args, kwargs)]
    if len(args) > 1:
        forms += [((args[0], number, *args[2:]), kwargs), ((number, *args[1:]), kwargs)]
    if "out" in key:
        forms = [(args, {**kwargs, "out": _empty_result(operator, args, kwargs)})]
    for form, options in forms:
        try:
            if recorder.has_room(key, form, options):
                function(*copy_tensors(form), **copy_tensors(options))
                recorder.keep(AtenCall(key, recorder.dtype, function, tuple(form), options))
        except Exception:  # an overload takes one of the forms and refuses the others
            continue


def _empty_result(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    try:
        return torch.empty_like(operator.op(*copy_tensors(args), **copy_tensors(kwargs)))
    except Exception:  # no single tensor to write to
        return None
