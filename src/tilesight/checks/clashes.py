"""The footprint of a launch as findings: races, reads of what nobody wrote, stores overwritten unread."""

from __future__ import annotations

from collections.abc import Collection

from tilesight.checks.clash import Clash, Overwrite
from tilesight.checks.finding import SHOWN_PROGRAMS, Finding, Level
from tilesight.checks.footprint import Footprint
from tilesight.checks.place import lanes_text, line_of, name_of
from tilesight.checks.slices import Flow, flow_of
from tilesight.checks.unwritten import Unwritten
from tilesight.checks.wording import counted
from tilesight.engine.communication import ATOMICS, pointer_sources
from tilesight.engine.launch import Launch
from tilesight.ir.module import Module, Operation

WASTED_SHARE = 0.5
"""Of what a store wrote at least this share must be overwritten unread."""

VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}


def find_races(
    footprint: Footprint, module: Module, launch: Launch, elsewhere: Collection[Clash] = ()
) -> list[Finding]:
    """One finding for each pair of lines, tensor and kind of clash; stores of equal values are notes.

    Args: elsewhere: clashes that another finding tells of
    """
    merged: dict[tuple[object, ...], Clash] = {}
    told = set(map(id, elsewhere))
    for clash in footprint.clashes.values():
        if id(clash) in told:
            continue
        key = (*line_of(_store_of(clash), launch), line_of(_other_of(clash), launch), id(clash.memory))
        known = merged.setdefault((*key, is_within(clash)), clash)
        if known is not clash:
            known.is_benign = known.is_benign and clash.is_benign
            known.units += clash.units
            known.seen_programs |= clash.seen_programs
    return [_race(clash, module, launch) for clash in merged.values()]


def _store_of(clash: Clash) -> Operation:
    return clash.first if clash.first_kind == "store" and clash.second_kind != "store" else clash.second


def _other_of(clash: Clash) -> Operation:
    return clash.second if _store_of(clash) is clash.first else clash.first


def is_within(clash: Clash) -> bool:
    """Whether it is between threads of one program."""
    return clash.programs[0] == clash.programs[1]


def _race(clash: Clash, module: Module, launch: Launch) -> Finding:
    place = line_of(_store_of(clash), launch)
    level: Level = "note" if clash.is_benign else "error"
    hint = _ticket_hint(clash, module, launch) or _race_hint(clash)
    return finding_of_clash(clash, "race", place, _race_message(clash, launch), hint, level)


def finding_of_clash(
    clash: Clash, kind: str, place: tuple[str, int], message: str, hint: str, level: Level = "error"
) -> Finding:
    """A finding at a file and line, with the programs, lane and tensor of the clash."""
    programs = sorted({program for program in (*clash.programs, *clash.seen_programs) if program >= 0})
    shown, lanes = tuple(programs[:SHOWN_PROGRAMS]), (clash.lane, clash.lane)
    tensor = name_of(clash.memory)
    return Finding(kind, *place, shown, len(programs), lanes, clash.units, tensor, message, hint, level)


def _race_message(clash: Clash, launch: Launch) -> str:
    tensor = f"{name_of(clash.memory)} (element {clash.element})"
    lines = [f"line {line_of(operation, launch)[1]}" for operation in (clash.first, clash.second)]
    first, second = VERBS[clash.first_kind], VERBS[clash.second_kind]
    if is_within(clash):
        if clash.first is clash.second:
            return f"several lanes of program {clash.programs[1]} write {tensor} in one store{_values(clash)}"
        return (
            f"one thread of program {clash.programs[1]} {first} {tensor} in {lines[0]}, another {second} it in "
            f"{lines[1]} (lane {clash.lane}), and no barrier lies between"
        )
    earlier = f"program {clash.programs[0]}" if clash.programs[0] >= 0 else "several programs"
    verb = first if clash.programs[0] >= 0 else first.removesuffix("s")
    place = f" in {lines[0]}" if lines[0] != lines[1] else ""
    return (
        f"{earlier} {verb} {tensor}{place} and program {clash.programs[1]} {second} it"
        f"{f' in {lines[1]}' if place else ''}, in one launch and without an atomic{_values(clash)}"
    )


def _values(clash: Clash) -> str:
    if clash.first_kind != "store" or clash.second_kind != "store":
        return ""
    return "; the values are equal" if clash.is_benign else "; the values differ, the last one stays"


def _ticket_hint(clash: Clash, module: Module, launch: Launch) -> str:
    """The repair where the ticket that lets a program read what all have stored is taken before the store.

    Empty where the two accesses are not on both sides of an atomic whose result decides who reads.
    """
    kinds = {clash.first_kind: clash.first, clash.second_kind: clash.second}
    if kinds.keys() != {"store", "load"}:
        return ""
    flow, order = flow_of(module), list(module.walk())
    conditions = [each.operands[0] for each in order if each.name in ("scf.if", "cf.cond_br")]
    tickets = {each for each in flow.backward(*conditions) if each.name in ATOMICS} if conditions else set[Operation]()
    taken = [ticket for ticket in order if ticket in tickets and not _is_in_loop(ticket, flow)]
    store, load = (order.index(kinds[kind]) for kind in ("store", "load"))
    early = [ticket for ticket in taken if order.index(ticket) < store < load]
    if not early:
        return ""
    line, tensor = line_of(early[0], launch)[1], name_of(clash.memory)
    return (
        f"store before the ticket is taken: move the store of {tensor} above the atomic of line {line}, with "
        "tl.debug_barrier() between the two; whoever draws the last ticket reads what the others have stored by then"
    )


def _is_in_loop(operation: Operation, flow: Flow) -> bool:
    """Whether it may run again and again, as the atomic of a lock does that is waited for."""
    return any(outer.name in ("scf.for", "scf.while") for outer in flow.enclosing(operation))


def _race_hint(clash: Clash) -> str:
    if clash.is_benign:
        return "harmless as long as the values are equal; let one program store it"
    if is_within(clash):
        if clash.first is clash.second:
            return "give each lane an address of its own, or reduce the lanes first"
        return "put tl.debug_barrier() between the two, or keep the values in registers"
    if "load" in (clash.first_kind, clash.second_kind):
        return "write to another tensor than is read, split the kernel in two launches, or use an atomic"
    return "give each program its own part (look at program_id and the strides), or use an atomic"


def find_uninitialised_reads(footprint: Footprint, launch: Launch) -> list[Finding]:
    """One finding for each line and tensor."""
    return [_uninitialised(read, launch) for read in footprint.unwritten.values()]


def _uninitialised(read: Unwritten, launch: Launch) -> Finding:
    file, line = line_of(read.operation, launch)
    tensor = name_of(read.memory)
    lanes = f"{lanes_text(*read.lanes)} of program {read.program}"
    return Finding(
        kind="uninitialised-read",
        file=file,
        line=line,
        programs=tuple(sorted(read.programs)[:SHOWN_PROGRAMS]),
        program_count=len(read.programs),
        lanes=read.lanes,
        lane_count=read.lane_count,
        tensor=tensor,
        message=f"{read.kind} of {tensor} {VERBS[read.kind]} elements that nothing has written: {lanes}, "
        f"from element {read.element} on; {tensor} comes from torch.empty",
        hint=f"make {tensor} with torch.zeros, or write it before it is read",
    )


def find_overwrites(footprint: Footprint, module: Module, launch: Launch) -> list[Finding]:
    """One finding for each line whose store is mostly overwritten by the same program before anything reads it.

    What stores through two arguments overwrite of each other is a matter of `aliasing`.
    """
    sources = pointer_sources(module.kernel)
    return [
        _overwrite(overwrite, launch)
        for (first, _), overwrite in footprint.overwrites.items()
        if overwrite.units >= WASTED_SHARE * footprint.stored_lanes.get(first, 0)
        and sources.get(overwrite.first.operands[0]) == sources.get(overwrite.second.operands[0])
    ]


def _overwrite(overwrite: Overwrite, launch: Launch) -> Finding:
    file, line = line_of(overwrite.first, launch)
    tensor = name_of(overwrite.memory)
    again = line_of(overwrite.second, launch)[1]
    where = "in its next round" if overwrite.first is overwrite.second else f"in line {again}"
    return Finding(
        kind="contract",
        file=file,
        line=line,
        programs=(overwrite.program,),
        program_count=1,
        lanes=(0, 0),
        lane_count=overwrite.units,
        tensor=tensor,
        message=f"what the store of {tensor} writes is overwritten {where} before anything reads it: "
        f"{counted(overwrite.units, 'lane')}, first in program {overwrite.program}",
        hint="store once, after the loop" if overwrite.first is overwrite.second else "drop the first store",
        level="warning",
    )
