"""The findings of many runs: each fault once, with the smallest case that shows it."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from tilesight.checks.finding import Finding
from tilesight.checks.kinds import KINDS
from tilesight.roads.layout_findings import findings_of_layout, other_causes
from tilesight.roads.matrix import Outcome
from tilesight.roads.model import CheckedCase, CheckedFinding, Key, place


@dataclass
class _Sighting:
    finding: Finding
    case: str
    cases: int = 0
    launches: int = 0


def gather(outcomes: Sequence[Outcome]) -> tuple[CheckedFinding, ...]:
    """Each fault of a matrix once, what most runs show first, with the smallest case that shows it.

    A fault that one layout of an input shows, and the contiguous input of the same shape does not, is a
    `stride` finding in place of what the launches' sanitizer said of that run.
    """
    plain = {_shape_key(each): each for each in outcomes if each.cell.layout is None}
    others = other_causes(outcomes, plain)
    seen: dict[Key, _Sighting] = {}
    for outcome in outcomes:
        findings = outcome.findings
        twin = plain.get(_shape_key(outcome))
        if outcome.cell.layout is not None and twin is not None:
            findings = findings_of_layout(outcome, twin, others)
        _note(seen, findings, case_text(outcome.case))
    constant = _constant_grid(outcomes)
    return _ordered(_with_grid(_checked(each), constant) for each in _one_line_a_tensor(seen.values()))


def gather_launches(findings: Iterable[Finding]) -> tuple[CheckedFinding, ...]:
    """Each fault of a launch function's launches once."""
    seen: dict[Key, _Sighting] = {}
    _note(seen, findings, "")
    return _ordered(_checked(each) for each in seen.values())


def case_text(case: CheckedCase) -> str:
    """`f32[1,17]`, and the layout where it is not contiguous."""
    return case.inputs if case.strides == "contiguous" else f"{case.inputs}, {case.strides}"


def _note(seen: dict[Key, _Sighting], findings: Iterable[Finding], case: str) -> None:
    here: set[Key] = set()
    for finding in findings:
        key = place(finding)
        sighting = seen.setdefault(key, _Sighting(finding, case))
        sighting.launches += 1
        sighting.cases += key not in here
        here.add(key)


def _shape_key(outcome: Outcome) -> str:
    return outcome.case.inputs


def _one_line_a_tensor(sightings: Iterable[_Sighting]) -> list[_Sighting]:
    """What is never written of a tensor at one line, the one that most runs show.

    For some sizes the store to blame is not in the module at all, as its mask is false: another is named there.
    """
    kept: list[_Sighting] = []
    unwritten: dict[tuple[str, str], _Sighting] = {}
    for each in sightings:
        if each.finding.kind != "never-written":
            kept.append(each)
            continue
        key = each.finding.file, each.finding.tensor
        most, least = sorted((each, unwritten.get(key, each)), key=lambda one: -one.cases)
        unwritten[key] = most
        if least is not most:
            most.cases, most.launches = most.cases + least.cases, most.launches + least.launches
    return [*kept, *unwritten.values()]


def _checked(sighting: _Sighting) -> CheckedFinding:
    finding = sighting.finding
    own = {each.name: getattr(finding, each.name) for each in fields(Finding)}
    return CheckedFinding(
        **own,
        case=sighting.case,
        case_count=sighting.cases,
        launch_count=sighting.launches,
        source=linecache.getline(finding.file, finding.line).strip(),
    )


def _ordered(findings: Iterable[CheckedFinding]) -> tuple[CheckedFinding, ...]:
    """Errors first; what most runs show first, as a cause is seen more often than what follows; by kind and line."""
    levels, kinds = ["error", "warning", "note"], list(KINDS)

    def rank(each: CheckedFinding) -> tuple[int, int, int, str, int]:
        return levels.index(each.level), -each.case_count, kinds.index(each.kind), each.file, each.line

    return tuple(sorted(findings, key=rank))


def _constant_grid(outcomes: Sequence[Outcome]) -> tuple[int, int, int] | None:
    """The grid of every launch where it is one and the same for all sizes; else None."""
    ran = [outcome for outcome in outcomes if outcome.case.grids]
    sizes = {outcome.case.shape for outcome in ran}
    grids = {grid for outcome in ran for grid in outcome.case.grids}
    return grids.pop() if len(grids) == 1 and len(sizes) > 1 else None


def _with_grid(finding: CheckedFinding, constant: tuple[int, int, int] | None) -> CheckedFinding:
    if constant is None or finding.kind != "grid":
        return finding
    return replace(finding, message=f"{finding.message}; the grid was {constant} for every shape")
