"""Bytes and round trips of a graph on three roads: op by op, compiled into kernels, and ideal.

Every op or kernel reads each of its inputs once and writes each of its outputs once. A tensor that
is written again (in place, or a reused buffer) is a new version: what was stored before the write
and what is stored by it are counted apart. A write of a part lies over what was there before: who
reads the tensor then reads both. Of two parts with different names no more is known than their sizes,
so they share as little as those allow.
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
        held: (buffer, bytes) of those that hold more than it reads or writes of them
    """

    name: str
    reads: tuple[TensorBytes, ...]
    writes: tuple[TensorBytes, ...]
    is_bound: bool = False
    held: tuple[TensorBytes, ...] = ()


Step = OpTraffic | KernelTrafficEstimate


@dataclass(eq=False)
class _Version:
    """One stored state of a tensor: which step wrote it and which load it. Graph inputs have no writer.

    Args:
        writer: the step's number; -1 for none
        part: what the writer calls it: the tensor's own name, or that of a part
        base: what it lies over, of a write of a part; None where it is all there is
    """

    tensor: str
    writer: int
    stored_bytes: int
    part: str = ""
    base: _Version | None = None
    is_partial: bool = False
    loads: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    used_by_name: dict[str, int] = field(default_factory=dict[str, int])
    is_returned: bool = False

    @property
    def is_input(self) -> bool:
        return self.writer < 0

    def used_once_bytes(self) -> int:
        """Bytes that are used of it, each of its names once, no more than there are."""
        return min(self.stored_bytes, sum(self.used_by_name.values()))

    def load(self, reader: int, name: str, count_bytes: int) -> None:
        self.loads.append((reader, count_bytes))
        self.used_by_name[name] = max(count_bytes, self.used_by_name.get(name, 0))

    def chain(self) -> list[_Version]:
        """It and all that it lies over."""
        return [self] if self.base is None else [self, *self.base.chain()]


@dataclass(frozen=True)
class HandOver:
    """What one step stores and a later one loads.

    Args:
        writer, reader: numbers of the steps
        bytes: that are loaded
        stored_bytes: of the writer's store; 0 where others need it too, as another reader or the caller
    """

    tensor: str
    writer: int
    reader: int
    bytes: int
    stored_bytes: int


def moved_bytes(steps: Iterable[Step]) -> int:
    """Bytes when every step reads its inputs once and writes its outputs once; views move nothing."""
    return sum(_sum_once(step.reads) + _sum_once(step.writes) for step in steps if not _is_view(step))


def round_trips(steps: Sequence[Step], outputs: Sequence[str] = ()) -> tuple[RoundTrip, ...]:
    """The intermediates that one step stores and a later one loads.

    Bytes are stored once plus loaded once by each reader; a tensor that the graph returns has to be
    stored anyway, so only its loads count.
    """
    trips: list[RoundTrip] = []
    for version in _States(steps, outputs).versions:
        if not version.is_input and version.loads:
            loaded_bytes = sum(count for _, count in version.loads)
            stored_bytes = 0 if version.is_returned else version.stored_bytes
            readers = tuple(dict.fromkeys(steps[number].name for number, _ in version.loads))
            trips.append(RoundTrip(version.tensor, stored_bytes + loaded_bytes, steps[version.writer].name, readers))
    return tuple(trips)


def hand_overs(steps: Sequence[Step], outputs: Sequence[str] = ()) -> tuple[HandOver, ...]:
    """The round trips by pairs of steps, in the order of the writes."""
    return tuple(
        HandOver(version.tensor, version.writer, reader, count, 0 if is_kept else version.stored_bytes)
        for version in _States(steps, outputs).versions
        if not version.is_input
        for is_kept in [version.is_returned or len({reader for reader, _ in version.loads}) > 1]
        for reader, count in version.loads
    )


def ideal_bytes(steps: Sequence[Step], outputs: Sequence[str]) -> int:
    """Bytes when each graph input is read once and each output is written once.

    Inputs that nothing reads cost nothing, nor does an output that is (a view of) an input. An input
    that is read and written in place is an output too. Of a tensor used only through views, the views'
    bytes count.
    """
    states = _States(steps, outputs)
    return sum(version.used_once_bytes() for version in states.versions if version.is_input) + states.returned_bytes()


def _is_view(step: Step) -> bool:
    return isinstance(step, OpTraffic) and step.is_view


def _largest_by_name(tensors: Iterable[TensorBytes]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for name, count in tensors:
        largest[name] = max(count, largest.get(name, 0))
    return largest


def _sum_once(tensors: Iterable[TensorBytes]) -> int:
    return sum(_largest_by_name(tensors).values())


class _States:
    """Every stored state of every tensor, graph inputs included, in the order they come up.

    Views are names of their root; what nothing wrote is a graph input.
    """

    def __init__(self, steps: Sequence[Step], outputs: Sequence[str]) -> None:
        self.versions: list[_Version] = []
        self._current: dict[str, _Version] = {}
        self._roots: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        for number, step in enumerate(steps):
            if _is_view(step):
                self._rename(step.reads[:1], step.writes)
                continue
            for tensor, count in () if isinstance(step, OpTraffic) else step.held:
                self._hold(tensor, count)
            for tensor, count in _largest_by_name(step.reads).items():
                self._read(number, tensor, count)
            for tensor, count in _largest_by_name(step.writes).items():
                self._write(number, tensor, count)
        written_inputs = [version.tensor for version in self.versions if version.is_input and version.loads]
        self._returned = {self._roots.get(tensor, tensor) for tensor in (*outputs, *written_inputs)}
        for tensor in self._returned & self._current.keys():
            for version in self._current[tensor].chain():
                version.is_returned = True

    def returned_bytes(self) -> int:
        """Bytes of what the caller gets, each tensor once: of an input that was written, what was written of it."""
        total = 0
        for tensor in self._returned & self._current.keys():
            chain = self._current[tensor].chain()
            stored = sum(version.stored_bytes for version in chain if not version.is_input)
            total += min(stored, self._sizes[tensor]) if len(chain) > 1 else stored
        return total

    def _hold(self, tensor: str, count_bytes: int) -> str:
        """The tensor's root, which holds at least these bytes."""
        root = self._roots.get(tensor, tensor)
        self._sizes[root] = max(count_bytes, self._sizes.get(root, 0))
        return root

    def _rename(self, viewed: Sequence[TensorBytes], names: Sequence[TensorBytes]) -> None:
        for tensor, count_bytes in viewed:
            root = self._state(tensor, count_bytes).tensor
            self._roots.update((name, root) for name, _ in names)

    def _read(self, reader: int, tensor: str, count_bytes: int) -> None:
        version, left = self._state(tensor, count_bytes), count_bytes
        while version.is_partial and left:
            taken = min(left, self._shared(version, tensor, count_bytes))
            if taken:
                version.load(reader, tensor, taken)
                left -= taken
            if left and version.base is None:
                version.base = self._input(version.tensor)
            if version.base is None:
                return
            version = version.base
        if left or not count_bytes:
            version.load(reader, tensor, left)

    def _shared(self, version: _Version, name: str, count_bytes: int) -> int:
        """Bytes of a read that a part holds which was written: all where it is the same part or the whole is read."""
        whole = self._sizes[version.tensor]
        if name == version.part or count_bytes >= whole:
            return version.stored_bytes
        return max(0, count_bytes + version.stored_bytes - whole)

    def _write(self, writer: int, tensor: str, count_bytes: int) -> None:
        root = self._hold(tensor, count_bytes)
        version = _Version(root, writer, count_bytes, tensor, is_partial=0 < count_bytes < self._sizes[root])
        if version.is_partial:
            base = self._current.get(root)
            is_same = base is not None and base.is_partial and base.part == tensor != root
            version.base = base.base if is_same and base is not None else base
        self._current[root] = version
        self.versions.append(version)

    def _input(self, root: str) -> _Version:
        version = _Version(root, -1, self._sizes.get(root, 0), root)
        self.versions.append(version)
        return version

    def _state(self, tensor: str, count_bytes: int) -> _Version:
        """The tensor's current version; one that nothing wrote yet is a graph input."""
        root = self._hold(tensor, count_bytes)
        if root not in self._current:
            self._current[root] = self._input(root)
        state = self._current[root]
        if state.is_input and root == tensor:
            state.stored_bytes = max(state.stored_bytes, count_bytes)
        return state
