"""Bytes and round trips of a graph on three roads: op by op, compiled into kernels, and ideal.

Every op or kernel reads each of its inputs once and writes each of its outputs once. A tensor that
is written again (in place, or a reused buffer) is a new version: what was stored before the write
and what is stored by it are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tilesight.ledger.model import RoundTrip

TensorBytes = tuple[str, int]


@dataclass(frozen=True)
class OpTraffic:
    """One op of a graph that runs op by op, in the graph's order.

    Args:
        name: the node's name
        target: such as `aten.add.Tensor`
        reads, writes: (tensor, bytes) of its inputs and outputs
        is_view: it moves nothing; its outputs are other names for (a part of) its first input
        is_bound: an index tensor chooses what it reads or writes, so its bytes are at most these
    """

    name: str
    target: str
    reads: tuple[TensorBytes, ...]
    writes: tuple[TensorBytes, ...]
    is_view: bool = False
    is_bound: bool = False


@dataclass(frozen=True)
class KernelTrafficEstimate:
    """One kernel of the compiled road, in launch order, with the bytes of its arguments.

    Args:
        name: the kernel's name
        reads, writes: (buffer, bytes); a buffer that is updated in place is in both
        is_bound: an index tensor chooses what it reads or writes, so its bytes are at most these
    """

    name: str
    reads: tuple[TensorBytes, ...]
    writes: tuple[TensorBytes, ...]
    is_bound: bool = False


Step = OpTraffic | KernelTrafficEstimate


@dataclass
class _Version:
    """One stored state of a tensor: who wrote it and who loads it. Graph inputs have no writer."""

    tensor: str
    writer: str
    stored_bytes: int
    loads: list[TensorBytes] = field(default_factory=list[TensorBytes])
    used_by_name: dict[str, int] = field(default_factory=dict[str, int])
    is_returned: bool = False

    def used_once_bytes(self) -> int:
        """Bytes that are used of it, each of its names once, no more than there are."""
        return min(self.stored_bytes, sum(self.used_by_name.values()))


def moved_bytes(steps: Iterable[Step]) -> int:
    """Bytes when every step reads its inputs once and writes its outputs once; views move nothing."""
    return sum(_sum_once(step.reads) + _sum_once(step.writes) for step in steps if not _is_view(step))


def round_trips(steps: Sequence[Step], outputs: Sequence[str] = ()) -> tuple[RoundTrip, ...]:
    """The intermediates that one step stores and a later one loads.

    Bytes are stored once plus loaded once by each reader; a tensor that the graph returns has to be
    stored anyway, so only its loads count.
    """
    trips: list[RoundTrip] = []
    for version in _versions(steps, outputs):
        if version.writer and version.loads:
            loaded_bytes = sum(count for _, count in version.loads)
            stored_bytes = 0 if version.is_returned else version.stored_bytes
            readers = tuple(dict.fromkeys(name for name, _ in version.loads))
            trips.append(RoundTrip(version.tensor, stored_bytes + loaded_bytes, version.writer, readers))
    return tuple(trips)


def ideal_bytes(steps: Sequence[Step], outputs: Sequence[str]) -> int:
    """Bytes when each graph input is read once and each output is written once.

    Inputs that nothing reads cost nothing, nor does an output that is (a view of) an input. An input
    written in place is an output too. Of a tensor used only through views, the views' bytes count.
    """
    versions = _versions(steps, outputs)
    read_bytes = sum(version.used_once_bytes() for version in versions if not version.writer)
    written_bytes = sum(version.stored_bytes for version in versions if version.writer and version.is_returned)
    return read_bytes + written_bytes


def _is_view(step: Step) -> bool:
    return isinstance(step, OpTraffic) and step.is_view


def _largest_by_name(tensors: Iterable[TensorBytes]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for name, count in tensors:
        largest[name] = max(count, largest.get(name, 0))
    return largest


def _sum_once(tensors: Iterable[TensorBytes]) -> int:
    return sum(_largest_by_name(tensors).values())


def _versions(steps: Sequence[Step], outputs: Sequence[str]) -> list[_Version]:
    """Every stored state of every tensor, graph inputs included, in the order they come up."""
    states = _States()
    for step in steps:
        if _is_view(step):
            states.rename(step.reads[:1], step.writes)
            continue
        for tensor, count in _largest_by_name(step.reads).items():
            states.read(step.name, tensor, count)
        for tensor, count in _largest_by_name(step.writes).items():
            states.write(step.name, tensor, count)
    mutated_inputs = [version.tensor for version in states.versions if not version.writer]
    for tensor in (*outputs, *mutated_inputs):
        states.give_back(tensor)
    return states.versions


class _States:
    """The current version of each tensor while a graph is walked; views are names of their root."""

    def __init__(self) -> None:
        self.versions: list[_Version] = []
        self._current: dict[str, _Version] = {}
        self._roots: dict[str, str] = {}

    def read(self, reader: str, tensor: str, count_bytes: int) -> None:
        state = self._state(tensor, count_bytes)
        state.loads.append((reader, count_bytes))
        state.used_by_name[tensor] = max(count_bytes, state.used_by_name.get(tensor, 0))

    def write(self, writer: str, tensor: str, count_bytes: int) -> None:
        root = self._roots.get(tensor, tensor)
        self._current[root] = _Version(root, writer, count_bytes)
        self.versions.append(self._current[root])

    def rename(self, viewed: Sequence[TensorBytes], names: Sequence[TensorBytes]) -> None:
        for tensor, count_bytes in viewed:
            root = self._state(tensor, count_bytes).tensor
            self._roots.update((name, root) for name, _ in names)

    def give_back(self, tensor: str) -> None:
        state = self._current.get(self._roots.get(tensor, tensor))
        if state is not None:
            state.is_returned = True

    def _state(self, tensor: str, count_bytes: int) -> _Version:
        """The tensor's current version; one that nothing wrote yet is a graph input."""
        root = self._roots.get(tensor, tensor)
        if root not in self._current:
            self._current[root] = _Version(root, "", 0)
            self.versions.append(self._current[root])
        state = self._current[root]
        if not state.writer and root == tensor:
            state.stored_bytes = max(state.stored_bytes, count_bytes)
        return state
