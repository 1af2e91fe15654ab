"""What a layout of an input brings about: one `stride` finding in place of all that follows from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from tilesight.checks.finding import Finding
from tilesight.roads.check_launches import Site
from tilesight.roads.matrix import Outcome
from tilesight.roads.model import CheckedCase, Key, place

Form = Literal["own", "other", "copy", "result"]

SIGNS_OF_LAYOUT = {
    "out-of-bounds": "lanes leave {}",
    "uninitialised-read": "elements are read that nothing wrote",
    "never-written": "elements are never written",
    "race": "programs store to one element",
    "grid": "the grid does not fit",
}
"""What offsets for another layout bring about beside wrong numbers."""
SURE_SIGNS = frozenset({"out-of-bounds", "race"})
"""Wrong even where the numbers happen to be right."""


@dataclass(frozen=True)
class Cause:
    """Where a layout goes wrong.

    Args:
        form: at the input's own offsets; at another tensor's, which follow the input's strides; at a copy of the input
            that is written in its stead; at those of a result that lies as the input does
        tensor: whose offsets, or what is copied
        site: a line that loads or stores it
        file, line: what is to be repaired
    """

    form: Form
    tensor: str
    site: Site
    file: str
    line: int


def other_causes(outcomes: Iterable[Outcome], plain: Mapping[str, Outcome]) -> dict[int, Cause]:
    """For each input that a layout of was seen to break another tensor's offsets, where that is."""
    found: dict[int, Cause] = {}
    for outcome in outcomes:
        twin = plain.get(outcome.case.inputs)
        if outcome.cell.layout is not None and twin is not None:
            cause = _other_cause(outcome, _signs(outcome, twin))
            if cause is not None:
                found.setdefault(outcome.cell.laid_out, cause)
    return found


def findings_of_layout(outcome: Outcome, twin: Outcome, others: Mapping[int, Cause]) -> list[Finding]:
    """What a run with a layout shows; what only the layout brought about becomes one `stride` finding.

    Args:
        twin: the run of the contiguous input of the same shape
        others: as `other_causes` gives them
    """
    signs = _signs(outcome, twin)
    repeated = outcome.repeated
    is_by_values = repeated is not None and repeated.case.ok is False
    is_wrong = twin.case.ok is True and outcome.case.ok is False and outcome.case.error is not None and not is_by_values
    cause = _cause(outcome, twin, signs, others)
    if cause is None or not (is_wrong or any(finding.kind in SURE_SIGNS for finding in signs)):
        return list(outcome.findings)
    known = _known(outcome, twin)
    kept = [finding for finding in outcome.findings if place(finding) in known]
    return [*kept, _stride(outcome, cause, signs, is_wrong)]


def _known(outcome: Outcome, twin: Outcome) -> Collection[Key]:
    """What the contiguous input shows as well, with its own values or with the layout's."""
    repeated = outcome.repeated.findings if outcome.repeated is not None else ()
    return {place(finding) for finding in (*twin.findings, *repeated)}


def _signs(outcome: Outcome, twin: Outcome) -> list[Finding]:
    known = _known(outcome, twin)
    return [each for each in outcome.findings if place(each) not in known and each.kind in SIGNS_OF_LAYOUT]


def _cause(outcome: Outcome, twin: Outcome, signs: Sequence[Finding], others: Mapping[int, Cause]) -> Cause | None:
    use, copied = outcome.use, _copied_cause(outcome, twin)
    if copied is not None or use is None or use.site is None:
        return copied
    is_own = any(finding.tensor in use.own for finding in signs) or not use.is_inside
    other = None if is_own else _other_cause(outcome, signs) or others.get(outcome.cell.laid_out)
    return other or _result_cause(outcome, twin) or Cause("own", use.site.tensor, use.site, *_line_of(use.site))


def _copied_cause(outcome: Outcome, twin: Outcome) -> Cause | None:
    """The contiguous input is written in place, and this one is not: what was written is a copy of it."""
    index = outcome.cell.laid_out
    if outcome.use is None or twin.use is None or index in outcome.use.stored or index not in twin.use.stored:
        return None
    site = twin.use.stored[index]
    return Cause("copy", site.tensor, site, *(outcome.use.copied_at or (site.file, site.line)))


def _result_cause(outcome: Outcome, twin: Outcome) -> Cause | None:
    """Loads of the input follow its strides, and a store to a result that has strides of its own follows none."""
    use, plain = outcome.use, twin.use
    if use is None or plain is None or use.result is None or use.result.tensor in use.own:
        return None
    offsets = {(_line_of(site), site.tensor, site.kind): site.offsets for site in plain.sites}

    def follows(site: Site) -> bool:
        return offsets.get((_line_of(site), site.tensor, site.kind)) not in (None, site.offsets)

    loads = [site for site in use.sites if site.tensor in use.own and site.kind == "load"]
    if loads and all(follows(site) for site in loads) and not follows(use.result):
        return Cause("result", use.result.tensor, use.result, *_line_of(use.result))
    return None


def _line_of(site: Site) -> tuple[str, int]:
    return site.file, site.line


def _other_cause(outcome: Outcome, signs: Sequence[Finding]) -> Cause | None:
    """A line whose lanes leave another tensor than the one with the layout, which is read where it should be."""
    use = outcome.use
    left = [finding for finding in signs if finding.kind == "out-of-bounds"]
    if use is None or not use.own or not use.is_inside or any(finding.tensor in use.own for finding in left):
        return None
    for finding in left:
        for site in use.sites:
            if (site.file, site.line, site.tensor) == (finding.file, finding.line, finding.tensor):
                return Cause("other", site.tensor, site, site.file, site.line)
    return None


def _stride(outcome: Outcome, cause: Cause, signs: Sequence[Finding], is_wrong: bool) -> Finding:
    case, layout, use = outcome.case, outcome.cell.layout, outcome.use
    assert layout is not None and use is not None
    name = case.strides.removesuffix(layout.name).strip()
    kinds = {finding.kind for finding in signs}
    left = next((each.tensor for each in signs if each.kind == "out-of-bounds" and each.tensor not in use.own), "")
    shown = [_off_by(case)] if is_wrong else []
    shown += [text.format(left or "the tensor") for kind, text in SIGNS_OF_LAYOUT.items() if kind in kinds]
    given = f"{name} is {layout.name}, with strides {use.strides}"
    held = "right" if is_wrong else "within bounds"
    message = f"{held} for a contiguous {name}; when {given}, {_listed(shown)}{_why(cause, name)}"
    first = next((finding for finding in signs if finding.programs), None)
    return Finding(
        kind="stride",
        file=cause.file,
        line=cause.line,
        programs=first.programs if first else (),
        program_count=first.program_count if first else 0,
        lanes=first.lanes if first else (0, 0),
        lane_count=first.lane_count if first else 0,
        tensor=cause.tensor,
        message=message,
        hint=_repair(cause, name),
    )


def _why(cause: Cause, name: str) -> str:
    if cause.form == "copy":
        return f": what is written in place is a copy, and {name} stays as it was"
    if cause.form == "result":
        return f": {cause.tensor} lies as {name} does, and its offsets do not follow its strides"
    return f": the offsets of {cause.tensor} follow {name}'s strides" if cause.form == "other" else ""


def _repair(cause: Cause, name: str) -> str:
    site, tensor = cause.site, cause.tensor
    if cause.form == "other":
        return f"pass {tensor}.stride() to the kernel for the offsets of {tensor}"
    if cause.form == "copy":
        return f"copy the result back ({name}.copy_(…)), or let the kernel write to {name} itself, by {name}.stride()"
    if site.kind == "store" and tensor != name:
        made = f"make {tensor} contiguous (torch.empty_like keeps {name}'s strides)"
        return f"{made}, or pass {tensor}.stride() to the kernel for its offsets"
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
