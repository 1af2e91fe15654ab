"""The chain from the user's line to the lines of a kernel: each thing with what stands before and behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilesight.capture.inductor.graph import CompiledGraph, CompiledRegion
from tilesight.roads.behind import NodesBehind, group_of_each_call
from tilesight.roads.line_links import link_lines
from tilesight.roads.model import Link
from tilesight.roads.region_ledger import global_names, labels


def link_all(graph: CompiledGraph) -> tuple[Link, ...]:
    """Every user's line, Dynamo node, ATen node, buffer, fused group, kernel and line of a kernel's source.

    A line of source stands behind its kernel, behind the ATen nodes that it computes, and behind the buffers that it
    stores; the buffers that it loads are named among what stands before it too. Nodes of a backward graph stand behind
    the Dynamo node whose gradient they compute. Graphs whose schedule was not heard have no groups.
    """
    chain = _Chain()
    names = global_names(graph.regions)
    words = labels(graph.regions) if len(graph.regions) > 1 else [""]
    known: dict[str, str] = {}
    first_call = 0
    for number, region in enumerate(graph.regions):
        if region.fx:
            known = {}  # a backward graph's nodes name those of the forward graph before it
        _Region(chain, region, names[number], words[number], known, first_call).add()
        first_call += len(region.calls)
    return chain.links()


class _Chain:
    """The links while they are made, in the order of their kinds' first appearance."""

    def __init__(self) -> None:
        self._things: dict[str, tuple[str, str, str]] = {}
        self._before: dict[str, dict[str, None]] = {}
        self._behind: dict[str, dict[str, None]] = {}

    def add(self, kind: str, key: str, name: str, graph: str = "") -> str:
        """The thing's identity; the same for the same kind and key."""
        identity = f"{kind}:{key}"
        self._things.setdefault(identity, (kind, name, graph))
        return identity

    def join(self, before: Iterable[str], behind: str) -> None:
        for each in before:
            self._before.setdefault(behind, {})[each] = None
            self._behind.setdefault(each, {})[behind] = None

    def links(self) -> tuple[Link, ...]:
        return tuple(
            Link(
                identity,
                kind,
                name,
                graph,
                tuple(self._before.get(identity, ())),
                tuple(self._behind.get(identity, ())),
            )
            for identity, (kind, name, graph) in self._things.items()
        )


class _Region:
    """Adds one graph to the chain.

    Args:
        names: what its buffers are called among all graphs
        word: its own name among them; empty where it is the only one
        known: identities of Dynamo's nodes by each of their names; grows
        first_call: position of its first call in `kernels`
    """

    def __init__(
        self,
        chain: _Chain,
        region: CompiledRegion,
        names: Mapping[str, str],
        word: str,
        known: dict[str, str],
        first_call: int,
    ) -> None:
        self._chain, self._region, self._names, self._known = chain, region, names, known
        self._prefix = f"{word}." if word else ""
        self._first_call = first_call
        self._aten: dict[str, str] = {}
        self._behind = NodesBehind(region)

    def add(self) -> None:
        self._add_dynamo_nodes()
        self._add_aten_nodes()
        groups = self._add_groups()
        for number, home in enumerate(group_of_each_call(self._region)):
            self._add_kernel(number, groups.get(home, ""), home)

    def _line(self, source: str) -> list[str]:
        return [self._chain.add("line", source, source)] if source else []

    def _add_dynamo_nodes(self) -> None:
        for node in self._region.fx:
            if node.op.startswith("call_"):
                line = self._line(node.source)
                identity = self._chain.add("fx", f"{self._prefix}{node.name}", node.name, self._region.graph)
                self._chain.join(line, identity)
                self._known.setdefault(node.origin or node.name, identity)
                self._known[node.name] = identity

    def _add_aten_nodes(self) -> None:
        for node in self._region.aten:
            if node.op == "call_function":
                identity = self._chain.add("aten", f"{self._prefix}{node.name}", node.name, self._region.graph)
                self._aten[node.name] = identity
                origin = self._known.get(node.origin)
                self._chain.join([origin] if origin else self._line(node.source), identity)

    def _nodes(self, names: Iterable[str]) -> list[str]:
        return [self._aten[name] for name in names if name in self._aten]

    def _buffer(self, name: str) -> str:
        whole = self._names.get(name, f"{self._prefix}{name}")
        return self._chain.add("buffer", whole, whole, self._region.graph)

    def _add_groups(self) -> dict[int, str]:
        """The groups that run, by position, with their buffers before them."""
        found: dict[int, str] = {}
        for number, group in enumerate(self._region.groups):
            if group.kind == "nothing":
                continue
            name = "_".join(group.operations)
            found[number] = self._chain.add("group", f"{self._prefix}{name}", name, self._region.graph)
            for buffer in group.buffers:
                identity = self._buffer(buffer)
                self._chain.join(self._nodes(self._behind.buffer(group, buffer)), identity)
                self._chain.join([identity], found[number])
        return found

    def _add_kernel(self, number: int, group: str, home: int) -> None:
        call = self._region.calls[number]
        position = self._first_call + number
        identity = self._chain.add("kernel", str(position), call.kernel, self._region.graph)
        self._chain.join([group] if group else map(self._buffer, call.writes), identity)
        kernel = next((each for each in self._region.kernels if each.name == call.kernel), None)
        if kernel is None:
            return
        values = self._region.groups[home].values if home >= 0 else {}
        for line in link_lines(kernel, call, values, self._region.buffers):
            source = self._chain.add("source", f"{position}.{line.number}", str(line.number), self._region.graph)
            self._chain.join([*self._nodes(line.nodes), *map(self._buffer, (*line.loads, *line.stores))], source)
            self._chain.join([identity], source)
