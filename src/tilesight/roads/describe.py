"""A compiled graph described for the reports: graph, kernels, ledger, what was not fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata

from tilesight.capture.inductor.choices import PADDING
from tilesight.capture.inductor.graph import Call, CompiledGraph, CompiledRegion, Node
from tilesight.capture.parts import Parts, find_parts
from tilesight.ledger.graph import KernelTrafficEstimate, moved_bytes
from tilesight.ledger.model import Bytes, KernelTraffic
from tilesight.roads.apart import pairs_left_apart
from tilesight.roads.behind import NodesBehind, group_of_each_call
from tilesight.roads.links import link_all
from tilesight.roads.model import Break, CompileTimes, Graph, GraphOp, Kernel, Observation
from tilesight.roads.region_ledger import EagerRecord, copies_for_library_calls, estimates, labels, ledger_of
from tilesight.targets import Target


def describe_graph(
    graph: CompiledGraph,
    *,
    subject: str,
    inputs: tuple[str, ...],
    target: Target | None,
    eager: EagerRecord | None = None,
    traffic: Sequence[KernelTraffic | None] = (),
    notes: tuple[str, ...] = (),
) -> Observation:
    """The Observation of one compiled call.

    Args:
        graph: what torch.compile made
        subject, inputs: what was compiled, in the reader's words
        target: the GPU whose bandwidth predictions take; None where there are none
        eager: what eager mode would launch (`capture.eager.record_eager`); without it the ledger's
            eager and ideal bytes are None
        traffic: what the engine measured for each call of the wrapper, None for extern calls, which have a formula
        notes: sentences for the reader
    """
    words = _labels(graph)
    calls = [(region, call, word) for region, word in zip(graph.regions, words, strict=True) for call in region.calls]
    steps = [step for region in graph.regions for step in estimates(region)]
    formulas = [_by_formula(step) for step in steps]
    counted = [None if each is None else each.bytes for each in traffic] or [None] * len(calls)
    lines = [each for region in graph.regions for each in _lines_of_each_call(region)]
    kernels = tuple(
        replace(_kernel(region, call, seen or (None if call.is_triton else formula), told), label=word)
        for (region, call, word), seen, formula, told in zip(calls, counted, formulas, lines, strict=True)
    )
    return Observation(
        subject=subject,
        inputs=inputs,
        target=target.name if target else "",
        torch=metadata.version("torch").split("+")[0],
        triton=metadata.version("triton"),
        graph=_graph(graph),
        breaks=tuple(Break(each.source, each.reason) for each in graph.breaks),
        kernels=kernels,
        ledger=ledger_of(graph, eager),
        not_fused=pairs_left_apart(graph, target),
        compile=CompileTimes(round(graph.cold_s, 4), _rounded(graph.warm_s), graph.cache),
        timeline=graph.timeline,
        output_code=tuple(region.code for region in graph.regions),
        notes=(*notes, *_bounds(eager, steps), *_layout_copies(graph), *_not_decided(graph), *_left_out(graph)),
        failures=tuple(Break(each.source, each.reason) for each in graph.failures),
        links=link_all(graph),
        guards=graph.guards,
        recompiles=graph.recompiles,
    )


def _bounds(eager: EagerRecord | None, steps: Sequence[KernelTrafficEstimate | None]) -> tuple[str, ...]:
    """Say so where an index tensor chooses what is touched, which is not known."""
    operators = sum(each.is_bound for each in eager[0]) if eager else 0
    kernels = sum(step is not None and step.is_bound for step in steps)
    if not operators and not kernels:
        return ()
    who = f"{_count(operators, 'operator')} of eager mode and {_count(kernels, 'kernel')}"
    return (f"bytes are bounds for {who} that look rows up by an index: a row for each index, no table more than once",)


def _layout_copies(graph: CompiledGraph) -> tuple[str, ...]:
    """Name the copies that Inductor puts before library calls, and eager mode does not make."""
    found = [step for region in graph.regions for step in copies_for_library_calls(region)]
    if not found:
        return ()
    which = "kernel copies a tensor" if len(found) == 1 else "kernels copy tensors"
    moved = f"{len(found)} {which} into the layout that Inductor chose for a library call: {moved_bytes(found):,} bytes"
    return (f"{moved}, which eager mode does not move (what the library does inside its call is in neither)",)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _left_out(graph: CompiledGraph) -> tuple[str, ...]:
    """What the figures do not hold, where the function was not compiled as a whole."""
    if not graph.regions:
        return ("torch.compile made no graph of it: all of it runs in eager mode, for the reasons under graph breaks",)
    if graph.failures:
        return ("compiled bytes are not known: what was not compiled is not in them",)
    return ()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _labels(graph: CompiledGraph) -> list[str]:
    """What each graph is called among several; empty where there is one."""
    return labels(graph.regions) if len(graph.regions) > 1 else [""] * len(graph.regions)


def _graph(graph: CompiledGraph) -> Graph:
    named = list(zip(graph.regions, _labels(graph), strict=True))
    aten = [(node, region.graph, word) for region, word in named for node in region.aten]
    fx = [(node, region.graph, word) for region, word in named for node in region.fx]
    return Graph(
        ops=tuple(_op(node, kind, word) for node, kind, word in aten if node.op == "call_function"),
        fx=tuple(_op(node, kind, word) for node, kind, word in fx if node.op.startswith("call_")),
        inputs=tuple(replace(each, label=word) for region, word in named for each in _inputs(region)),
        outputs=tuple(name for node, _, _ in aten if node.op == "output" for name in node.inputs),
    )


def _inputs(region: CompiledRegion) -> list[GraphOp]:
    """The graph's inputs, with where Dynamo read each as its code, where that is known."""
    nodes = [node for node in region.aten if node.op == "placeholder"]
    known = region.graph != "backward" and len(nodes) == len(region.input_sources)
    sources = region.input_sources if known else [""] * len(nodes)
    return [replace(_op(node, region.graph), code=source) for node, source in zip(nodes, sources, strict=True)]


def _op(node: Node, graph: str, label: str = "") -> GraphOp:
    return GraphOp(node.name, node.target, node.inputs, node.shape, node.dtype, node.source, node.code, graph, label)


def _by_formula(step: KernelTrafficEstimate | None) -> Bytes | None:
    """Bytes of a call that is not run here: each tensor that it reads and each that it writes, once."""
    return None if step is None else Bytes(touched=moved_bytes([step]))


def _kernel(region: CompiledRegion, call: Call, moved: Bytes | None, lines: tuple[str, ...]) -> Kernel:
    source = next((kernel.source for kernel in region.kernels if kernel.name == call.kernel), "")
    return Kernel(
        name=call.kernel,
        kind="triton" if call.is_triton else "cpp" if source else "extern",
        ops=call.ops,
        source=source,
        source_lines=lines,
        parts=find_parts(source, call.kernel) if call.is_triton else Parts(),
        grid=call.grid,
        config=dict(call.config),
        reads=call.reads,
        writes=call.writes,
        bytes=moved or Bytes(),
        graph=region.graph,
        choices=_choices(region, call),
    )


def _choices(region: CompiledRegion, call: Call) -> tuple[str, ...]:
    """What the GPU would time against this call; empty where nothing is left open."""
    nodes = {name for buffer in call.writes for name in region.buffer_nodes.get(buffer, ())}
    found = [each for each in region.undecided if each.node in nodes and each.operator != PADDING]
    return tuple(f"{choice.name} {choice.description}".strip() for each in found for choice in each.choices)


def _not_decided(graph: CompiledGraph) -> tuple[str, ...]:
    """A sentence for each choice that only timing on the GPU makes."""
    found = [each for region in graph.regions for each in region.undecided]
    return tuple(
        f"not decided without the GPU: {each.node} ({each.operator}) is chosen by timing {len(each.choices)} ways;"
        f" the code shows {each.taken}"
        for each in found
    )


def _lines_of_each_call(region: CompiledRegion) -> list[tuple[str, ...]]:
    """The user's file:line of each node that a call implements.

    Those are ATen's nodes behind its group. Where no group is known, as in code from elsewhere, they are the nodes that
    its comment names, which are Dynamo's: the two graphs may give one name to different nodes.
    """
    dynamo, aten = ({node.name: node.source for node in nodes if node.source} for nodes in (region.fx, region.aten))
    behind = NodesBehind(region)
    homes = group_of_each_call(region) if region.groups else [-1] * len(region.calls)
    found: list[tuple[str, ...]] = []
    for call, home in zip(region.calls, homes, strict=True):
        lines = [aten.get(name, "") for name in behind.group(region.groups[home])] if home >= 0 else []
        if not any(lines):
            lines = [dynamo.get(name) or aten.get(name, "") for name in call.nodes]
        if not any(lines):
            origins = [name for buffer in call.writes for name in region.buffer_nodes.get(buffer, ())]
            lines = [aten.get(name, "") for name in origins]
        found.append(tuple(dict.fromkeys(filter(None, lines))))
    return found
