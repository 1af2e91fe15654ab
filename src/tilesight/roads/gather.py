"""The findings of many runs: each fault once, with the smallest case that shows it."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite

from tilesight.checks.finding import Finding
from tilesight.checks.kinds import KINDS
from tilesight.roads.check_launches import Site
from tilesight.roads.matrix import Outcome
from tilesight.roads.model import CheckedCase, CheckedFinding

Key = tuple[str, str, int, str]

SIGNS_OF_LAYOUT = {
    "out-of-bounds": "lanes leave the tensor",
    "uninitialised-read": "elements are read that nothing wrote",
    "never-written": "elements are never written",
    "race": "programs store to one element",
    "grid": "the grid does not fit",
}
"""What offsets for another layout bring about beside wrong numbers."""


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
    seen: dict[Key, _Sighting] = {}
    for outcome in outcomes:
        findings = outcome.findings
        twin = plain.get(_shape_key(outcome))
        if outcome.cell.layout is not None and twin is not None:
            findings = _of_layout(outcome, twin)
        _note(seen, findings, case_text(outcome.case))
    constant = _constant_grid(outcomes)
    return _ordered(_with_grid(_checked(each), constant) for each in seen.values())


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


def place(finding: Finding) -> Key:
    """What two sightings of one fault have in common: kind, file, line and tensor."""
    return finding.kind, finding.file, finding.line, finding.tensor


def _shape_key(outcome: Outcome) -> str:
    return outcome.case.inputs


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


def _of_layout(outcome: Outcome, twin: Outcome) -> list[Finding]:
    """What a run with a layout shows; what only the layout brought about becomes one `stride` finding."""
    known = {place(finding) for finding in twin.findings}
    new = [finding for finding in outcome.findings if place(finding) not in known]
    signs = [finding for finding in new if finding.kind in SIGNS_OF_LAYOUT]
    is_wrong = twin.case.ok is True and outcome.case.ok is False and outcome.case.error is not None
    if outcome.site is None or not (is_wrong or any(finding.kind == "out-of-bounds" for finding in signs)):
        return list(outcome.findings)
    return [finding for finding in outcome.findings if place(finding) in known] + [_stride(outcome, signs, is_wrong)]


def _stride(outcome: Outcome, signs: Sequence[Finding], is_wrong: bool) -> Finding:
    site, case, layout = outcome.site, outcome.case, outcome.cell.layout
    assert site is not None and layout is not None
    name = case.strides.removesuffix(layout.name).strip()
    kinds = {finding.kind for finding in signs}
    shown = [_off_by(case)] if is_wrong else []
    shown += [text for kind, text in SIGNS_OF_LAYOUT.items() if kind in kinds]
    given = f"{name} is {layout.name}, with strides {outcome.strides}"
    held = "right" if is_wrong else "within bounds"
    message = f"{held} for a contiguous {name}; when {given}, {_listed(shown)}"
    first = next((finding for finding in signs if finding.programs), None)
    return Finding(
        kind="stride",
        file=site.file,
        line=site.line,
        programs=first.programs if first else (),
        program_count=first.program_count if first else 0,
        lanes=first.lanes if first else (0, 0),
        lane_count=first.lane_count if first else 0,
        tensor=site.tensor,
        message=message,
        hint=_repair(site, name),
    )


def _repair(site: Site, name: str) -> str:
    if site.kind == "store" and site.tensor != name:
        made = f"make {site.tensor} contiguous (torch.empty_like keeps {name}'s strides)"
        return f"{made}, or pass {site.tensor}.stride() to the kernel for its offsets"
    return f"pass {name}.stride() to the kernel for its offsets, or let the launcher call {name}.contiguous()"


def _listed(texts: Sequence[str]) -> str:
    """`a, b and c`."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _off_by(case: CheckedCase) -> str:
    assert case.error is not None and case.tolerance is not None
    if not isfinite(case.error):
        return "the numbers are NaN or infinite"
    return f"the numbers are off by {case.error:.1e} (tolerance {case.tolerance:.0e})"


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
