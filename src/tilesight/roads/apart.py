"""Neighbours that Inductor left apart: who decided it, in whose words, and what the bytes between them cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilesight.capture.inductor.graph import Call, CompiledGraph, CompiledRegion, Unfused
from tilesight.ledger.graph import KernelTrafficEstimate, hand_overs
from tilesight.roads.behind import NodesBehind, group_of_each_call
from tilesight.roads.model import NotFused
from tilesight.roads.region_ledger import estimates, global_names
from tilesight.targets import Target

MEANINGS = {
    "no shared data": "they touch no element in the same order, so one kernel would save no load",
    "no shared data due to indexing mismatch": "they walk the shared tensor in different orders",
    "intermediate nodes between node1 & node2": "what stands between them needs the first and is needed by the second",
    "memory deps did not match": "the second reads other elements than the first has just made",
    "numel/rnumel mismatch (reduce) (%s, %s), (%s, %s)": "the two reductions have different sizes",
    "numel/rnumel mismatch (non-reduce) (%s, %s), (%s, %s)": "the sizes that they walk do not fit together",
    "invalid tiling for reduction": "the tiles of the one do not suit the reduction of the other",
    "nodes numel/rnumel incompatibility": "the sizes that they walk and reduce do not fit together",
    "nodes numel incompatibility": "the sizes that they walk do not fit together",
    "Split scan cannot fuse with reductions": "a running sum over many programs keeps other reductions out",
    "device mismatch (%s vs %s)": "they run on two devices",
    "exceeds max fusion": "together they are more nodes than config.max_fusion_size allows",
    "Fusion will increase peak memory": "together they would hold more memory at once",
    "score_fusion_memory_threshold": "what they share is less than config.score_fusion_memory_threshold",
    "Nodes are too far away. Fusing them may increase peak memory.": "tensors between them would live longer",
    "will create cycle": "each would have to wait for the other, by way of a third",
    "node1 must go before node2": "the order of the two is fixed",
    "prologue fusion turned off": "a template takes in what comes before it only under max-autotune",
}
"""What Inductor's rules mean, by their words without the figures."""

LIBRARY_CALL = "{0} is a library call: Inductor fuses only into kernels that it writes itself"
OWN_KERNEL = "{0} is a kernel that was written by hand: Inductor leaves it as it is"
WORKSPACE = "Inductor's kernel leaves partial results of each program in a workspace, which plain torch adds up"
WOULD_FUSE = "Inductor would fuse the two; another fusion, or a cycle through a third kernel, came before"
NOT_ASKED = "Inductor did not weigh this pair: no rule of its scheduler put the two side by side"


@dataclass
class _Between:
    """What passes between two calls of one graph: tensors, their bytes, None where one is unknown."""

    tensors: list[str] = field(default_factory=list[str])
    bytes: int | None = 0

    def add(self, tensor: str, count: int | None) -> None:
        self.tensors.append(tensor)
        self.bytes = None if self.bytes is None or count is None else self.bytes + count


def pairs_left_apart(graph: CompiledGraph, target: Target | None) -> tuple[NotFused, ...]:
    """Each pair of kernels or calls of one graph with a tensor between them, and each that shares an input and was
    weighed by Inductor; the dearest first.

    Their bytes are what one kernel in place of the two would not move: the load, and the store too where nobody
    else needs it. The predicted time is those bytes over the target's bandwidth. Graphs whose schedule was not
    heard, as in code from elsewhere, have none.
    """
    found: list[NotFused] = []
    first = 0
    for region, names in zip(graph.regions, global_names(graph.regions), strict=True):
        if region.groups:
            found += _of_region(region, names, target, first)
        first += len(region.calls)
    return tuple(sorted(found, key=lambda pair: -(pair.bytes or 0)))


def _of_region(
    region: CompiledRegion, names: Mapping[str, str], target: Target | None, first: int
) -> Iterator[NotFused]:
    homes = group_of_each_call(region)
    heard = {each.groups: each for each in region.unfused}
    steps = estimates(region)
    behind = NodesBehind(region)

    def nodes_of(number: int) -> str:
        nodes = behind.group(region.groups[homes[number]]) if homes[number] >= 0 else ()
        return " + ".join(nodes) or region.calls[number].kernel

    def described(a: int, b: int, between: _Between, relation: str) -> NotFused:
        decision, reason, told = _decision(region, homes, heard, a, b)
        return NotFused(
            a=nodes_of(a),
            b=nodes_of(b),
            reason=reason,
            bytes=between.bytes,
            kernels=(first + a, first + b),
            tensors=tuple(names[name] for name in between.tensors),
            relation=relation,
            decision=decision,
            rule=told.rule if told else "",
            figures=told.figures if told else (),
            meaning=MEANINGS.get(told.rule, "") if told else "",
            predicted_us=_time_us(between.bytes, target),
        )

    handed_on = _handed_on(region, steps)
    for (a, b), between in handed_on.items():
        yield described(a, b, between, "producer and consumer")
    for (a, b), between in _shared(region, steps, homes, heard).items():
        if (a, b) not in handed_on:
            yield described(a, b, between, "same input")


def _time_us(count: int | None, target: Target | None) -> float | None:
    return None if count is None or target is None else round(count / target.roof_gb_per_s / 1e3, 4)


def _handed_on(
    region: CompiledRegion, steps: Sequence[KernelTrafficEstimate | None]
) -> dict[tuple[int, int], _Between]:
    """By (writer, reader): the tensors that the one stores and the other loads."""
    known = [
        step or KernelTrafficEstimate(call.kernel, _without_bytes(call.reads), _without_bytes(call.writes))
        for step, call in zip(steps, region.calls, strict=True)
    ]
    found: dict[tuple[int, int], _Between] = {}
    for each in hand_overs(known, region.outputs):
        is_known = steps[each.writer] is not None and steps[each.reader] is not None
        between = found.setdefault((each.writer, each.reader), _Between())
        between.add(each.tensor, each.bytes + each.stored_bytes if is_known else None)
    return found


def _without_bytes(names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, 0) for name in names)


def _shared(
    region: CompiledRegion,
    steps: Sequence[KernelTrafficEstimate | None],
    homes: Sequence[int],
    heard: Mapping[tuple[int, int], Unfused],
) -> dict[tuple[int, int], _Between]:
    """By pair of calls that Inductor weighed: what both load, and nobody writes between them."""
    calls_of: dict[int, list[int]] = {}
    for number, home in enumerate(homes):
        calls_of.setdefault(home, []).append(number)
    versions = list(_versions(region.calls))
    found: dict[tuple[int, int], _Between] = {}
    for groups in heard:
        for a, b in ((a, b) for a in calls_of.get(groups[0], ()) for b in calls_of.get(groups[1], ())):
            both = [name for name in region.calls[a].reads if versions[a][name] == versions[b].get(name, -1)]
            for name in both:
                between = found.setdefault((min(a, b), max(a, b)), _Between())
                between.add(name, _bytes_read(steps[b], name))
    return found


def _versions(calls: Sequence[Call]) -> Iterator[dict[str, int]]:
    """For each call, how often each tensor that it reads was written before."""
    written: dict[str, int] = {}
    for call in calls:
        yield {name: written.get(name, 0) for name in call.reads}
        for name in call.writes:
            written[name] = written.get(name, 0) + 1


def _bytes_read(step: KernelTrafficEstimate | None, name: str) -> int | None:
    return None if step is None else dict(step.reads)[name]


def _decision(
    region: CompiledRegion, homes: Sequence[int], heard: Mapping[tuple[int, int], Unfused], a: int, b: int
) -> tuple[str, str, Unfused | None]:
    """(who or what decided, the reason in words, what Inductor said of it)."""
    first, second = homes[a], homes[b]
    for number in (b, a):
        group = region.groups[homes[number]] if homes[number] >= 0 else None
        if group is not None and group.kind == "extern":
            call = region.calls[number]
            return "library call", (OWN_KERNEL if call.is_triton else LIBRARY_CALL).format(call.kernel), None
    if region.calls[b].kernel.startswith("torch."):
        return "workspace", WORKSPACE, None
    told = heard.get((min(first, second), max(first, second)))
    if told is None:
        return "not asked", NOT_ASKED, None
    return ("refused", told.reason, told) if told.reason else ("allowed", WOULD_FUSE, told)
