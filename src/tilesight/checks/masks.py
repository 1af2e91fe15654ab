"""Masks that are true in every lane, whatever the shapes: proven from the intervals of what they compare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

from tilesight.checks.finding import Finding
from tilesight.checks.intervals import Intervals
from tilesight.checks.place import line_of
from tilesight.checks.slices import Flow, flow_of
from tilesight.engine.launch import Launch
from tilesight.ir.module import Location, Module, Operation, Value

MOVES = frozenset({"tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.splat", "tt.trans"})

Place = tuple[str, int, int]


def find_wasted_masks(module: Module, launch: Launch, variants: Callable[[], Iterable[Module]]) -> list[Finding]:
    """Comparisons in masks that hold in every lane whatever the shapes, one finding a line.

    A note where the rest of the mask is needed.

    A comparison with a compile-time constant may be needed by another value of the constant: what is
    proven of the module must hold in every variant of it as well.

    Args:
        module: the kernel's
        launch: its launch
        variants: makes the module with other compile-time integers; asked only when something is proven
    """
    proven = _proven_places(module)
    if not proven:
        return []
    answer = _answer_of(module, tuple(sorted((name, repr(value)) for name, value in launch.constexprs.items())))
    if answer.proven is None:
        answer.proven = _proven_in_all(proven, launch, variants)
    return _findings(answer.proven, launch)


@dataclass
class _Answer:
    """What was proven of a kernel's masks, once somebody has asked."""

    proven: dict[Place, list[_Use]] | None = None


@lru_cache(maxsize=64)
def _answer_of(module: Module, constexprs: tuple[tuple[str, str], ...]) -> _Answer:
    """The answer for a kernel: launches of it differ in nothing that this check looks at."""
    return _Answer()


def _proven_in_all(
    proven: dict[Place, list[_Use]], launch: Launch, variants: Callable[[], Iterable[Module]]
) -> dict[Place, list[_Use]]:
    """What holds in every variant too; nothing where there are constants and no variant of them."""
    has_constants = any(isinstance(value, int) and not isinstance(value, bool) for value in launch.constexprs.values())
    seen = 0
    for variant in variants():
        seen += 1
        other = _judged(variant)
        proven = {place: uses for place, uses in proven.items() if not _is_doubtful(place, uses, other)}
        if not proven:
            return {}
    return {} if has_constants and not seen else proven


@dataclass(frozen=True)
class _Use:
    """A comparison in the mask of a memory operation, and the places of all parts of the mask; None has none."""

    comparison: Operation
    access: Operation
    parts: tuple[Place | None, ...]


@dataclass(frozen=True)
class _Judged:
    """What a module's masks are made of.

    Attributes:
        proven: uses of comparisons that hold, by the comparison's place
        doubtful: places of comparisons that are not proven somewhere
        masks: for each place of an access the masks it has, each as the places of its parts that are not proven
            and the places of all its parts
    """

    proven: dict[Place, list[_Use]]
    doubtful: set[Place]
    masks: dict[Place, list[tuple[set[Place], set[Place | None]]]]


def _is_doubtful(place: Place, uses: Sequence[_Use], other: _Judged) -> bool:
    """Whether a comparison may be needed in another variant of its module.

    There it may stand under the place of an equal comparison that came before it, as only one of the two is kept:
    where it is missing from the mask, something that is new in the mask and not proven may be it.
    """
    if place in other.doubtful:
        return True
    return any(
        place not in all_parts and not_proven - set(use.parts)
        for use in uses
        for not_proven, all_parts in other.masks.get(_place_of(use.access.location), ())
    )


def _findings(proven: dict[Place, list[_Use]], launch: Launch) -> list[Finding]:
    lines: dict[tuple[str, int], list[_Use]] = {}
    for uses in proven.values():
        lines.setdefault(line_of(uses[0].comparison, launch), []).extend(uses)
    return [_finding(file, line, uses, proven, launch) for (file, line), uses in lines.items()]


def _finding(file: str, line: int, uses: list[_Use], proven: Collection[Place | None], launch: Launch) -> Finding:
    """The finding of a line; a comparison too many in a mask that is needed all the same costs next to nothing."""
    accesses = sorted({line_of(use.access, launch)[1] for use in uses})
    where = f"line{'s' * (len(accesses) > 1)} {', '.join(map(str, accesses))}"
    wasted = [all(part in proven for part in use.parts) for use in uses]
    is_whole = all(wasted)
    what = "the mask" if is_whole else "a part of the mask"
    hint = "leave the mask out" if is_whole else "leave this comparison out of the mask"
    return Finding.of_line(
        "contract",
        (file, line),
        f"{what} of {where} is true in every lane of every launch, whatever the shapes and block sizes",
        hint,
        program_count=launch.programs,
        level="warning" if any(wasted) else "note",
    )


def _proven_places(module: Module) -> dict[Place, list[_Use]]:
    """The source positions of comparisons that hold wherever a mask uses them."""
    judged = _judged(module)
    return {place: uses for place, uses in judged.proven.items() if place not in judged.doubtful}


@lru_cache(maxsize=64)
def _judged(module: Module) -> _Judged:
    judge = _Judge(flow_of(module), Intervals(module))
    proven: dict[Place, list[_Use]] = {}
    doubtful: set[Place] = set()
    masks: dict[Place, list[tuple[set[Place], set[Place | None]]]] = {}
    for access in module.walk():
        for mask in access.operand_segments.get("mask", ()):
            parts = list(judge.parts(mask))
            places = tuple(None if part is None else _place_of(part.location) for part in parts)
            not_proven: set[Place] = set()
            for part, place in zip(parts, places, strict=True):
                if part is None or place is None:
                    continue
                if judge.holds(part):
                    proven.setdefault(place, []).append(_Use(part, access, places))
                else:
                    not_proven.add(place)
            doubtful |= not_proven
            masks.setdefault(_place_of(access.location), []).append((not_proven, set(places)))
    return _Judged(proven, doubtful, masks)


def _place_of(location: Location) -> Place:
    """A position in a file of this name: TTIR from a cache may name another folder than a variant made here."""
    frame = location.user_frame
    return PurePath(frame.file).name, frame.line, frame.column


class _Judge:
    """Decides which comparisons of a module hold in every lane."""

    def __init__(self, flow: Flow, intervals: Intervals) -> None:
        self._flow = flow
        self._intervals = intervals

    def parts(self, mask: Value) -> Iterator[Operation | None]:
        """What gives each part of a conjunction, such as a comparison; None for an argument."""
        operation = self._flow.definitions.get(mask)
        if operation is None:
            yield None
        elif operation.name == "arith.andi" or operation.name in MOVES:
            for operand in operation.operands:
                yield from self.parts(operand)
        elif operation.name != "arith.constant":
            yield operation

    def holds(self, comparison: Operation) -> bool:
        """Whether a comparison holds in every lane."""
        if comparison.name != "arith.cmpi":
            return False
        left, right = (self._intervals.of(operand) for operand in comparison.operands)
        predicate = str(comparison.attributes["predicate"])
        if predicate.startswith("u"):
            if left.low < 0 or right.low < 0:
                return False
            predicate = f"s{predicate[1:]}"
        if predicate in ("sgt", "sge"):
            left, right, predicate = right, left, {"sgt": "slt", "sge": "sle"}[predicate]
        if predicate == "ne":
            return left.is_below(right) or right.is_below(left)
        if predicate == "eq":
            return left.is_below(right, 0) and right.is_below(left, 0)
        return left.is_below(right, 1 if predicate == "slt" else 0)
