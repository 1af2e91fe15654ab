"""What one ATen operator does to memory in eager mode, where that is not: read every input once, write every result.

Rows that an index tensor chooses are not known; each index then stands for a row of its own, and a table is not
counted more than once. The steps are those of torch's own implementations, ATen/native/Convolution.cpp,
cuda/Embedding.cu and FunctionsManual's `slice_backward` among them, the same in torch 2.11 to 2.14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

Part = tuple[torch.Tensor, int | None]
"""A tensor, and how many bytes of it; None for all its elements."""


@dataclass(frozen=True)
class Step:
    """One pass over memory.

    Args:
        target: the ATen operator that it is
        reads, writes: what it reads and writes of which tensor
        is_bound: an index tensor chooses the elements: the bytes are at most these
    """

    target: str
    reads: tuple[Part, ...]
    writes: tuple[Part, ...]
    is_bound: bool = False


@dataclass(frozen=True)
class OpCall:
    """An operator with its arguments by name, and what it returned.

    Args:
        fresh: tensors that it returned and that share no memory with an argument
    """

    function: Any
    arguments: Mapping[str, Any]
    result: Any
    fresh: Sequence[torch.Tensor]

    @property
    def target(self) -> str:
        return str(self.function)

    def tensors(self, *but: str) -> list[torch.Tensor]:
        """Those in its arguments, but for the arguments of these names."""
        return [each for name, value in self.arguments.items() if name not in but for each in tensors_in(value)]

    def written_arguments(self) -> list[torch.Tensor]:
        """Those that it writes into."""
        named = [argument.name for argument in self.function._schema.arguments if _is_written(argument)]
        return [each for name in named for each in tensors_in(self.arguments.get(name))]


def call_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> OpCall:
    """The call as a record; what it returned is fresh where its storage is no argument's."""
    names = [argument.name for argument in function._schema.arguments]
    arguments = {**dict(zip(names, args, strict=False)), **kwargs}
    owned = {storage_of(each) for each in tensors_in(arguments)}
    return OpCall(function, arguments, result, [each for each in tensors_in(result) if storage_of(each) not in owned])


def steps_of(call: OpCall) -> list[Step]:
    """The passes over memory that an operator makes on a device; none where it only makes a view, or asks a size."""
    written = call.written_arguments()
    name = call.target.removeprefix("aten.").split(".")[0]
    if (not call.fresh and not written) or name in _ALLOCATES:
        return []
    if name in _RULES and (steps := _RULES[name](call)):
        return steps
    unread = written if name in _WRITE_ONLY else [each for each in written if _is_out(call, each)]
    kept = {id(each) for each in unread}
    reads = tuple((each, None) for each in call.tensors() if id(each) not in kept)
    return [Step(call.target, reads, tuple((each, None) for each in (*call.fresh, *written)))]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def storage_of(tensor: torch.Tensor) -> int:
    """What tells its storage from others."""
    return tensor.untyped_storage()._cdata


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _is_out(call: OpCall, tensor: torch.Tensor) -> bool:
    """Whether it is there to take the result, as in `out=`."""
    outs = [argument.name for argument in call.function._schema.arguments if _is_written(argument) and argument.is_out]
    return any(each is tensor for name in outs for each in tensors_in(call.arguments.get(name)))


_ALLOCATES = frozenset(("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"))
"""They launch nothing."""

_WRITE_ONLY = frozenset(
    ("copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "exponential_", "random_", "geometric_", "cauchy_")
)
"""They write into their first argument and ask nothing of what stood there."""


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _whole(*tensors: torch.Tensor) -> tuple[Part, ...]:
    return tuple((each, None) for each in tensors)


def _convolution(call: OpCall) -> list[Step]:
    """cuDNN's forward convolution takes no bias: `output.add_(bias)` follows. The depthwise kernel takes it."""
    x, weight, bias = (call.arguments[name] for name in ("input", "weight", "bias"))
    groups, channels = call.arguments["groups"], x.shape[1]
    is_depthwise = groups > 1 and groups == channels and not call.arguments["transposed"]
    if bias is None or x.device.type != "cuda" or is_depthwise:
        return []
    add = Step("aten.add_.Tensor", _whole(call.result, bias), _whole(call.result))
    return [Step(call.target, _whole(x, weight), _whole(call.result)), add]


def _convolution_backward(call: OpCall) -> list[Step]:
    """cuDNN gives the gradients of input and weight; the bias's is a sum over the gradient that came in."""
    gradient, (*others, of_bias) = call.arguments["grad_output"], call.result
    if of_bias is None or gradient.device.type != "cuda":
        return []
    found = [each for each in others if each is not None]
    alone = [Step(call.target, _whole(*call.tensors()), _whole(*found))] if found else []
    return [*alone, Step("aten.sum.dim_IntList", _whole(gradient), _whole(of_bias))]


def _gather(call: OpCall) -> list[Step]:
    """Each element of the result is one of the table."""
    table = next(iter(call.arguments.values()))
    chosen = min(_bytes(table), _bytes(call.result))
    rest = call.tensors(next(iter(call.arguments)))
    return [Step(call.target, ((table, chosen), *_whole(*rest)), _whole(call.result), is_bound=True)]


def _embedding_bag(call: OpCall) -> list[Step]:
    """A row of the table an index, summed within each bag."""
    table, indices = call.arguments["weight"], call.arguments["indices"]
    chosen = min(_bytes(table), indices.numel() * table.shape[1] * table.element_size())
    reads = ((table, chosen), *_whole(*call.tensors("weight")))
    return [Step(call.target, reads, _whole(*call.fresh), is_bound=True)]


def _embedding_backward(call: OpCall) -> list[Step]:
    """The table's gradient is filled with zeros; then each row that was read is written."""
    gradient = call.arguments["grad_output"]
    written = min(_bytes(call.result), _bytes(gradient))
    rows = Step(call.target, _whole(*call.tensors()), ((call.result, written),), is_bound=True)
    return [Step("aten.zeros.default", (), _whole(call.result)), rows]


def _slice_backward(call: OpCall) -> list[Step]:
    """Zeros, and the gradient copied into its place."""
    gradient = call.arguments["grad_output"]
    copy = Step("aten.copy_.default", _whole(gradient), ((call.result, _bytes(gradient)),))
    return [Step("aten.zeros.default", (), _whole(call.result)), copy]


def _scatter(call: OpCall, elements: int, *, adds: bool) -> list[Step]:
    """Elements of the first argument are written, as many as there are indices; where they are added to, read too."""
    name, into = next(iter(call.arguments.items()))
    chosen = (into, min(_bytes(into), elements * into.element_size()))
    reads = (*([chosen] if adds else []), *_whole(*call.tensors(name)))
    return [Step(call.target, reads, (chosen,), is_bound=True)]


def _index_put(call: OpCall) -> list[Step]:
    into, indices = call.arguments["self"], call.arguments["indices"]
    given = [each for each in indices if each is not None]
    if any(each.dtype in (torch.bool, torch.uint8) for each in given):
        return []  # how many are chosen is not known at all
    left = [extent for extent, each in zip(into.shape, indices, strict=False) if each is None]
    places = prod(torch.broadcast_shapes(*(each.shape for each in given)))
    elements = places * prod((*left, *into.shape[len(indices) :]))
    return _scatter(call, elements, adds=bool(call.arguments.get("accumulate")))


def _scatter_by_index(*, adds: bool) -> Callable[[OpCall], list[Step]]:
    """scatter_ and its kin: one element an index."""
    return lambda call: _scatter(call, call.arguments["index"].numel(), adds=adds)


def _scatter_slices(*, adds: bool) -> Callable[[OpCall], list[Step]]:
    """index_add_ and its kin: one slice along `dim` an index."""

    def rule(call: OpCall) -> list[Step]:
        into, index, dim = (call.arguments[name] for name in ("self", "index", "dim"))
        return _scatter(call, index.numel() * into.numel() // max(into.shape[dim], 1), adds=adds)

    return rule


_RULES: dict[str, Callable[[OpCall], list[Step]]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "embedding": _gather,
    "index": _gather,
    "index_select": _gather,
    "gather": _gather,
    "take": _gather,
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "embedding_dense_backward": _embedding_backward,
    "slice_backward": _slice_backward,
    "select_backward": _slice_backward,
    "index_put_": _index_put,
    "_index_put_impl_": _index_put,
    "scatter_": _scatter_by_index(adds=False),
    "scatter_add_": _scatter_by_index(adds=True),
    "scatter_reduce_": _scatter_by_index(adds=True),
    "index_copy_": _scatter_slices(adds=False),
    "index_fill_": _scatter_slices(adds=False),
    "index_add_": _scatter_slices(adds=True),
}
