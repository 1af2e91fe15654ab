"""Calls that were made before with arguments of the same kind: what they allocated and launched is done again.

A call of the library checks its arguments, chooses a plan, makes views, allocates and launches. All that follows from
the tensors' shapes, strides, dtypes and alignment and from the other arguments, so the second call of a kind is written
down, and later ones allocate and launch alone. Of what cannot be done again in this way (a copy, a sum by torch, memory
that is kept between calls, a result that is a view of an argument) nothing is remembered.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton.tools.tensor_descriptor import TensorDescriptor

from tilesight.capture.compiled_kernels import active_driver
from tilesight.capture.transforms import is_observed
from tilesight.kernels.launching import listening

MOST_REMEMBERED = 4096
ALLOCATIONS = frozenset({"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty"})
TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
is_cpu_remembered = False
"""Whether calls on the CPU are as well, as in tests: in a session of the engine that stays."""
implementations: dict[Any, Callable[..., Any]] = {}
"""What the library's operators do, by the operator."""

P = ParamSpec("P")
R = TypeVar("R")
Layout = tuple[int | None, tuple[int, ...], tuple[int, ...], torch.dtype]
"""Which tensor it lies like, where `torch.empty_like` makes it; shape, strides and dtype."""


def remembered(function: Callable[P, R], state: Callable[[], Any] | None = None) -> Callable[P, R]:
    """A function that launches kernels; its calls on a GPU that need no gradient are remembered.

    Args:
        state: what else the function depends on, beside its arguments
    """
    known: dict[Any, _Call | bool] = {}  # True: seen once; False: can't be done again

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling() or listening.launches is not None or is_observed():
            return function(*args, **kwargs)
        tensors: list[torch.Tensor] = []
        try:
            key: Any = _kind_of(args, kwargs, tensors)
            key = key if state is None or key is None else (key, state())
            found = known.get(key)
        except (RuntimeError, TypeError):
            return function(*args, **kwargs)
        if type(found) is _Call:
            return found.again(tensors)
        if key is None:
            return function(*args, **kwargs)
        if found is not True:
            if len(known) >= MOST_REMEMBERED:
                known.clear()
            known[key] = found is None
            return function(*args, **kwargs)
        result, known[key] = _written_down(lambda: function(*args, **kwargs), tensors)
        return result

    return call


def _kind_of(args: Sequence[Any], kwargs: Mapping[str, Any], tensors: list[torch.Tensor]) -> tuple[Any, ...] | None:
    """What a call's allocations and launches follow from; None where they may follow from more.

    Args:
        tensors: gets those among the arguments, in their order
    Raises: RuntimeError: for a tensor without strides or data
    """
    has_gradients = torch.is_grad_enabled()
    kinds: list[Any] = [active_driver()]
    places: list[int] = []
    for argument in (*args, *kwargs.values()) if kwargs else args:
        given = type(argument)
        if given in TENSORS:
            is_known = argument.is_cuda or is_cpu_remembered
            if not is_known or argument.is_neg() or (has_gradients and argument.requires_grad):
                return None
            place = argument.data_ptr()
            kinds += (argument.shape, argument.stride(), argument.dtype, argument.get_device(), place & 15)
            tensors.append(argument)
            places.append(place)
        elif given is float:
            if argument != argument:
                return None
            kinds.append((argument, math.copysign(1.0, argument)))
        else:
            kinds.append((given, tuple(argument) if given is list else argument))
    if kwargs:
        kinds.extend(kwargs)
    if len(places) > 1 and len(set(places)) < len(places):
        kinds.append(tuple(map(places.index, places)))
    return tuple(kinds) if tensors else None


@dataclass(slots=True)
class _Launch:
    """One of a call's launches.

    Args:
        tensors: (place among the arguments, which tensor)
        descriptors: (place, which tensor is the base, the rest of the descriptor)
    """

    launch: Callable[..., Any]
    arguments: list[Any]
    tensors: list[tuple[int, int]]
    descriptors: list[tuple[int, int, dict[str, Any]]]

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Call the tensors by other numbers; one that has none keeps its own."""
        self.tensors = [(place, numbers.get(tensor, tensor)) for place, tensor in self.tensors]
        self.descriptors = [(place, numbers.get(tensor, tensor), rest) for place, tensor, rest in self.descriptors]


@dataclass(slots=True)
class _Call:
    """What a call did: which tensors it made, what it launched with them, which of them it gave back.

    Args:
        made: how each tensor lies that was made
        results: which of them were given back
        structure: what they were given back as; None for one tensor
    """

    made: list[Layout]
    device: torch.device
    launches: list[_Launch]
    results: list[int]
    structure: Callable[[list[torch.Tensor]], Any] | None

    def again(self, tensors: list[torch.Tensor]) -> Any:
        """The same with other tensors of the same kinds."""
        device = self.device
        made = [
            torch.empty_strided(shape, strides, dtype=dtype, device=device)
            if alike is None
            else torch.empty_like(tensors[alike])
            for alike, shape, strides, dtype in self.made
        ]
        everything = tensors + made
        places: list[Any] = [each.data_ptr() for each in everything] if device.type == "cuda" else everything
        for each in self.launches:
            arguments = each.arguments.copy()
            for place, tensor in each.tensors:
                arguments[place] = places[tensor]
            for place, tensor, rest in each.descriptors:
                arguments[place] = _descriptor(everything[tensor], rest)
            each.launch(*arguments)
        if self.structure is None:
            return made[self.results[0]]
        return self.structure([made[each] for each in self.results])


def _descriptor(base: torch.Tensor, rest: dict[str, Any]) -> TensorDescriptor:
    """A descriptor that needs no check: another one of the same kind was checked."""
    descriptor = object.__new__(TensorDescriptor)
    descriptor.__dict__.update(rest, base=base)
    return descriptor


class _Writing(TorchDispatchMode):
    """Writes down the tensors that are made, and whether anything else is done to data than by launches."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[torch.Tensor] = []
        self.is_repeatable = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        implementation = implementations.get(func)
        if implementation is not None:
            with self:
                return implementation(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        if func._schema.name in ALLOCATIONS:
            self.made.append(result)
        elif not func.is_view and (isinstance(result, torch.Tensor) or _has_tensors(func)):
            self.is_repeatable = False
        return result


def _has_tensors(operator: Any) -> bool:
    """Whether an operator takes tensors; one that does not may be about dtypes and shapes."""
    return any("Tensor" in str(argument.type) for argument in operator._schema.arguments)


def _written_down(function: Callable[[], Any], tensors: list[torch.Tensor]) -> tuple[Any, _Call | bool]:
    """A call's result, and the call; False in its place where it can't be done again."""
    writing = _Writing()
    launches: list[Any] = []
    listening.launches = launches
    try:
        with writing:
            result = function()
    finally:
        listening.launches = None
    results = [result] if isinstance(result, torch.Tensor) else result
    structure = None if isinstance(result, torch.Tensor) else type(result)
    if not writing.is_repeatable or not (structure in (None, tuple) or structure.__module__ == "torch.return_types"):
        return result, False
    return result, _call_of(writing.made, launches, tensors, list(results), structure) or False


def _call_of(
    made: list[torch.Tensor], launches: list[Any], tensors: list[torch.Tensor], results: list[Any], structure: Any
) -> _Call | None:
    """The call, or None where a tensor is neither an argument nor made in the call, or only a part of one is used."""
    owners: dict[int, int] = {}
    for place, each in enumerate((*tensors, *made)):
        if each.numel():
            owners.setdefault(each.data_ptr(), place)
    layouts = [_layout_of(each, tensors) for each in made]
    given: list[int] = []
    for result in results:
        if type(result) is not torch.Tensor or result.numel() == 0:
            return None
        place = owners.get(result.data_ptr(), 0) - len(tensors)
        if place < 0 or place in given or not _fills(result, made[place]):
            return None
        layouts[place] = _layout_of(result, tensors)
        given.append(place)
    found: list[_Launch] = []
    for launch, arguments in launches:
        each = None if launch is None else _launch_of(launch, arguments, owners, [*tensors, *made])
        if each is None:
            return None
        found.append(each)
    used = {owner - len(tensors) for each in found for _, owner in (*each.tensors, *(d[:2] for d in each.descriptors))}
    kept = [place for place in range(len(made)) if place in used or place in given]
    for each in found:
        each.renumber({place + len(tensors): new + len(tensors) for new, place in enumerate(kept)})
    return _Call(
        [layouts[each] for each in kept], tensors[0].device, found, [kept.index(each) for each in given], structure
    )


def _launch_of(
    launch: Callable[..., Any], arguments: tuple[Any, ...], owners: Mapping[int, int], everything: list[torch.Tensor]
) -> _Launch | None:
    found = _Launch(launch, list(arguments), [], [])
    for place, argument in enumerate(arguments):
        is_descriptor = type(argument) is TensorDescriptor
        tensor: Any = argument.base if is_descriptor else argument
        if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
            continue
        owner = owners.get(tensor.data_ptr())
        if owner is None or everything[owner].dtype != tensor.dtype:
            return None
        found.arguments[place] = None
        if is_descriptor:
            rest = {name: value for name, value in vars(argument).items() if name != "base"}
            found.descriptors.append((place, owner, rest))
        else:
            found.tensors.append((place, owner))
    return found


def _layout_of(tensor: torch.Tensor, tensors: list[torch.Tensor]) -> Layout:
    layout = tuple(tensor.shape), tensor.stride(), tensor.dtype
    is_whole = tensor.is_contiguous()
    alike = [is_whole and (tuple(each.shape), each.stride(), each.dtype) == layout for each in tensors]
    return alike.index(True) if any(alike) else None, *layout


def _fills(result: torch.Tensor, made: torch.Tensor) -> bool:
    """Whether a view of a new tensor is all of it, so that the view can be made in its place."""
    last = sum((size - 1) * stride for size, stride in zip(result.shape, result.stride(), strict=True))
    return result.dtype == made.dtype and last + 1 == result.numel() == made.numel()
