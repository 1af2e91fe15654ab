"""Which calls, groups, buffers and ATen nodes of a compiled graph belong together."""

from __future__ import annotations

from collections.abc import Iterable

from tilesight.capture.inductor.graph import CompiledRegion, FusedGroup


def group_of_each_call(region: CompiledRegion) -> list[int]:
    """The position of the group that each call comes from; −1 where there is none."""
    makers: dict[str, list[int]] = {}
    for number, group in enumerate(region.groups):
        for name in group.buffers if group.kind != "nothing" else ():
            makers.setdefault(name, []).append(number)
    places: list[int] = []
    taken: set[int] = set()
    for call in region.calls:
        fitting = sorted({number for name in call.writes for number in makers.get(name, ())})
        fresh = [number for number in fitting if number not in taken]
        places.append((fresh or fitting or [-1])[0])
        taken.add(places[-1])
    return places


class NodesBehind:
    """The ATen nodes of a region's groups and buffers, in the order of the graph.

    Inductor's own list for a buffer names what lies before it too. So of a kernel those nodes count that its values
    stand for, and of an extern call the last one, which is the call itself.
    """

    def __init__(self, region: CompiledRegion) -> None:
        self._region = region
        self._order = {node.name: number for number, node in enumerate(region.aten)}

    def group(self, group: FusedGroup) -> tuple[str, ...]:
        made = {node for nodes in group.values.values() for node in nodes}
        return self._in_order(made or self._told(group, group.operations))

    def buffer(self, group: FusedGroup, name: str) -> tuple[str, ...]:
        """Of one buffer that the group makes; all of the group's where nothing tells them apart."""
        made = set(self.group(group))
        return self._in_order(made & self._told(group, [name]) or made)

    def _told(self, group: FusedGroup, names: Iterable[str]) -> set[str]:
        told = {node for name in names for node in self._region.buffer_nodes.get(name, ())}
        return set(self._in_order(told)[-1:]) if group.kind == "extern" else told

    def _in_order(self, nodes: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(set(nodes), key=lambda name: self._order.get(name, -1)))
