"""The ledger of several graphs: one buffer is one name, though each graph numbers its own from buf0.

A backward graph's inputs are what its forward graph saved; both are then one tensor. Graphs on either side of a
graph break are counted apart: what passes between them is an output of one and an input of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilesight.capture.inductor.graph import Accessed, Call, CompiledGraph, CompiledRegion
from tilesight.capture.inductor.training import backward_inputs, saved_count
from tilesight.ledger import account
from tilesight.ledger.graph import KernelTrafficEstimate, OpTraffic, TensorBytes
from tilesight.ledger.model import Ledger
from tilesight.roads.behind import group_of_each_call

EagerRecord = tuple[Sequence[OpTraffic], tuple[str, ...]]


def ledger_of(graph: CompiledGraph, eager: EagerRecord | None) -> Ledger:
    """Eager, compiled and ideal bytes of all graphs together, with the round trips within and between them."""
    named = list(zip(graph.regions, global_names(graph.regions), strict=True))
    steps = [_renamed(step, names) for region, names in named for step in estimates(region)]
    known = [step for step in steps if step is not None]
    followers = (*graph.regions[1:], *([None] if graph.regions else []))
    outputs = [
        names[name]
        for (region, names), follower in zip(named, followers, strict=True)
        for name in region.outputs[: len(region.outputs) - _kept_back(follower)]
    ]
    return account(
        None if eager is None else eager[0],
        known if len(known) == len(steps) and graph.is_whole else None,
        outputs=() if eager is None else eager[1],
        kernel_outputs=tuple(outputs),
    )


def global_names(regions: Sequence[CompiledRegion]) -> list[dict[str, str]]:
    """For each graph, what its buffers are called among all: `buf0` as it is where there is one graph."""
    if len(regions) == 1:
        return [{name: name for name in _local_names(regions[0])}]
    found: list[dict[str, str]] = []
    for region, label in zip(regions, labels(regions), strict=True):
        names = {name: f"{label}.{name}" for name in _local_names(region)}
        if region.graph == "backward" and found:
            names |= _saved_by(regions[len(found) - 1], found[-1], region)
        found.append(names)
    return found


def estimates(region: CompiledRegion) -> list[KernelTrafficEstimate | None]:
    """Each call's bytes: of each argument what it touches, counted once; None where a buffer's size is unknown."""
    sizes = _Sizes(region)
    homes = group_of_each_call(region) if region.groups else [-1] * len(region.calls)
    touched = [region.groups[home].accessed if home >= 0 else None for home in homes]
    return [
        _estimate(sizes, call, (accessed if call.is_triton else None) or Accessed())
        for call, accessed in zip(region.calls, touched, strict=True)
    ]


def copies_for_library_calls(region: CompiledRegion) -> list[KernelTrafficEstimate]:
    """The kernels that only copy, and stand for an ATen node that is itself a library call."""
    called = {_operator(call.kernel) for call in region.calls if not call.is_triton}
    library = {node.name for node in region.aten if _operator(node.target) in called}
    homes = group_of_each_call(region) if region.groups else []
    found: list[KernelTrafficEstimate] = []
    for step, home in zip(estimates(region), homes, strict=False):
        group = region.groups[home]
        behind = {node for nodes in group.values.values() for node in nodes}
        if step and home >= 0 and group.accessed and group.accessed.is_copy and behind and behind <= library:
            found.append(step)
    return found


def labels(regions: Sequence[CompiledRegion]) -> list[str]:
    """`forward` and `backward`, numbered where graph breaks make several; `graph1`, … without gradients."""
    seen: Counter[str] = Counter()
    repeated = {kind for kind, times in Counter(region.graph for region in regions).items() if times > 1}
    labels: list[str] = []
    for region in regions:
        seen[region.graph] += 1
        word = "graph" if region.graph == "inference" else region.graph
        labels.append(f"{word}{seen[region.graph]}" if region.graph in repeated or word == "graph" else word)
    return labels


def _local_names(region: CompiledRegion) -> set[str]:
    used = {name for call in region.calls for name in (*call.reads, *call.writes)}
    return used | set(region.buffers) | set(region.outputs)


def _saved_by(forward: CompiledRegion, names: dict[str, str], backward: CompiledRegion) -> dict[str, str]:
    """A backward graph's inputs under the names that its forward graph's outputs have."""
    if len(forward.output_nodes) != len(forward.outputs):
        return {}
    made = dict(zip(forward.output_nodes, forward.outputs, strict=True))
    return {name: names[made[name]] for name in backward_inputs(backward) if name in made}


def _kept_back(follower: CompiledRegion | None) -> int:
    """How many of a graph's outputs the caller does not see."""
    return saved_count(follower) if follower is not None and follower.graph == "backward" else 0


def _renamed(step: KernelTrafficEstimate | None, names: dict[str, str]) -> KernelTrafficEstimate | None:
    if step is None:
        return None

    def all_of(tensors: tuple[TensorBytes, ...]) -> tuple[TensorBytes, ...]:
        return tuple((names[name], size) for name, size in tensors)

    return replace(step, reads=all_of(step.reads), writes=all_of(step.writes), held=all_of(step.held))


def _estimate(sizes: _Sizes, call: Call, accessed: Accessed) -> KernelTrafficEstimate | None:
    reads = [(name, _least(sizes.of(name), call.read_bytes, accessed.loads, name)) for name in call.reads]
    writes = [(name, _least(sizes.of(name), call.write_bytes, accessed.stores, name)) for name in call.writes]
    sized: list[Any] = [[(name, size) for name, size in side if size is not None] for side in (reads, writes)]
    if len(sized[0]) < len(reads) or len(sized[1]) < len(writes):
        return None
    is_bound = not {*call.reads, *call.writes}.isdisjoint(call.chosen | accessed.chosen)
    whole = {name: sizes.of(name) or 0 for name, _ in (*sized[0], *sized[1])}
    held = [(name, whole[name]) for name, size in dict((*sized[0], *sized[1])).items() if whole[name] > size]
    return KernelTrafficEstimate(call.kernel, tuple(sized[0]), tuple(sized[1]), is_bound, tuple(held))


def _least(held: int | None, passed: Mapping[str, int], accessed: Mapping[str, int], name: str) -> int | None:
    """Bytes touched of a buffer: no more than it holds, than the slice that is passed, than the loops walk."""
    known = [size for size in (held, passed.get(name), accessed.get(name)) if size is not None]
    return min(known, default=None)


class _Sizes:
    """Bytes of a region's buffers; of what an extern call returns, those that the ATen graph has of it.

    A buffer's own node comes last of those behind it: the others are what it was computed from. One of several
    tensors that a call returns is told from the others by its place.
    """

    def __init__(self, region: CompiledRegion) -> None:
        self._region = region
        self._makers: dict[str, set[str]] = {}
        for call in region.calls:
            for name in () if call.is_triton else call.writes:
                self._makers.setdefault(name, set()).add(_operator(call.kernel))
        self._nodes = {node.name: (position, node) for position, node in enumerate(region.aten)}
        self._items = {(name, node.item): node for node in region.aten if node.item is not None for name in node.inputs}

    def of(self, name: str) -> int | None:
        """Bytes of the buffer; None where they are not known."""
        buffer = self._region.buffers.get(name)
        if buffer is not None and (buffer.bytes is not None or buffer.reuses):
            return buffer.bytes if buffer.bytes is not None else self.of(buffer.reuses)
        makers = self._makers.get(name, set())
        behind = [self._nodes[each] for each in self._region.buffer_nodes.get(name, ()) if each in self._nodes]
        made = [(position, node) for position, node in behind if _operator(node.target) in makers]
        if not made:
            return None
        _, own = max(made, key=lambda each: each[0])
        item = self._items.get((own.name, buffer.item)) if buffer is not None and buffer.item is not None else None
        return own.bytes if item is None else item.bytes


def _operator(name: str) -> str:
    """`convolution` of both `aten.convolution.default` and `extern_kernels.convolution`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 2 else parts[-1]
