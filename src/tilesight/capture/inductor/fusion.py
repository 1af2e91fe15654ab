"""What Inductor's scheduler decided: its groups when fusing had ended, and its word on pairs that it left apart.

Heard where the decision is made, as objects: the two nodes, the reason and its figures. Seen to work on
torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from unittest.mock import patch

from tilesight.capture.inductor.accesses import accessed_by
from tilesight.capture.inductor.graph import FusedGroup, Unfused
from tilesight.capture.inductor.line_origins import LineOrigins, hear_lines

_OPERATION = re.compile(r"op\d+")


@dataclass
class Heard:
    """What the scheduler and the code generator told while one graph was compiled.

    Args:
        refused: Inductor's last reason against a pair of nodes, and its figures, by their names
        allowed: pairs that it would have fused
        lines: which ATen node each value in a kernel stands for
    """

    refused: dict[tuple[str, str], tuple[str, tuple[Any, ...]]] = field(
        default_factory=dict[tuple[str, str], tuple[str, tuple[Any, ...]]]
    )
    allowed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    lines: LineOrigins = field(default_factory=LineOrigins)

    def forget(self) -> None:
        """Begin anew, for the next graph: the scheduler gives its nodes the same names again."""
        self.refused.clear()
        self.allowed.clear()
        self.lines.forget()


@contextlib.contextmanager
def hear_fusion(heard: Heard) -> Generator[None]:
    """Note what the scheduler decides of each pair, and what each line of a kernel is made from."""
    scheduler: Any = import_module("torch._inductor.scheduler")
    say = scheduler.WhyNoFuse.__call__
    can_fuse = scheduler.Scheduler.can_fuse

    def why(self: Any, reason: str, *args: Any) -> None:
        heard.refused.pop((self.name1, self.name2), None)  # the last word comes last
        heard.refused[self.name1, self.name2] = (reason, args)
        say(self, reason, *args)

    def decide(self: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
        is_allowed = can_fuse(self, node1, node2, *args, **kwargs)
        if is_allowed:
            heard.allowed.add((node1.get_name(), node2.get_name()))
        return is_allowed

    with (
        patch.object(scheduler.WhyNoFuse, "__call__", why),
        patch.object(scheduler.Scheduler, "can_fuse", decide),
        hear_lines(heard.lines),
    ):
        yield


def read_groups(graph: Any, lines: LineOrigins) -> tuple[FusedGroup, ...]:
    """What a GraphLowering's scheduler keeps, in the order of the code: each a kernel, an extern call or nothing."""
    scheduler = graph.scheduler
    renamed = getattr(scheduler, "mutation_real_name", {})
    groups: list[FusedGroup] = []
    for node in getattr(scheduler, "nodes", ()):
        operations = tuple(part.get_name() for part in node.get_nodes())
        buffers = [name for part in node.get_nodes() for name in part.get_buffer_names()]
        written = dict.fromkeys([*buffers, *(renamed[name] for name in buffers if name in renamed)])
        kind = _kind(node)
        moved = accessed_by(node, graph) if kind == "fused" else None
        groups.append(FusedGroup(operations, tuple(written), kind, lines.values_of(operations), moved))
    return tuple(groups)


def _kind(node: Any) -> str:
    if node.is_template():
        return "template"
    if node.is_extern():
        return "extern"
    is_nop = any(base.__name__ == "NopKernelSchedulerNode" for base in type(node).__mro__)
    return "nothing" if is_nop else "fused"


def read_unfused(heard: Heard, groups: Sequence[FusedGroup]) -> list[Unfused]:
    """Inductor's word on each pair of groups that it looked at: on the two as they ended, or the last on parts."""
    homes = {operation: number for number, group in enumerate(groups) for operation in group.operations}
    found: dict[tuple[int, int], Unfused] = {}
    final: set[tuple[int, int]] = set()
    for (a, b), (reason, args) in heard.refused.items():
        pair = _homes_of(a, b, homes)
        is_whole = _is_whole(a, b, pair, groups) if pair else False
        if pair and (is_whole or pair not in final):
            found[pair] = Unfused(a, b, reason % args if args else reason, reason, tuple(map(str, args)), pair)
            final |= {pair} if is_whole else set()
    for a, b in heard.allowed:
        pair = _homes_of(a, b, homes)
        if pair and _is_whole(a, b, pair, groups) and pair not in final:
            found[pair] = Unfused(a, b, "", "", (), pair)
    return list(found.values())


def _homes_of(a: str, b: str, homes: dict[str, int]) -> tuple[int, int] | None:
    """The groups that two nodes ended in, in the order of the code; None where they ended in one, or in none."""
    places = [{homes.get(operation, -1) for operation in _OPERATION.findall(name)} for name in (a, b)]
    if any(len(each) != 1 or -1 in each for each in places) or places[0] == places[1]:
        return None
    first, second = sorted((places[0].pop(), places[1].pop()))
    return first, second


def _is_whole(a: str, b: str, pair: tuple[int, int], groups: Sequence[FusedGroup]) -> bool:
    named = {frozenset(_OPERATION.findall(name)) for name in (a, b)}
    return named == {frozenset(groups[number].operations) for number in pair}
