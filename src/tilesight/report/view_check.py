"""The sanitizer and the correctness matrix: what a report says of a check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tilesight.report.catalogue import Catalogue
from tilesight.report.texts import count_text, error_text, short_paths
from tilesight.report.view_model import Card, Cell, Column, Fact, FindingView, ReportView, Table
from tilesight.report.view_tables import Row, table
from tilesight.report.view_trace import findings_view
from tilesight.roads.model import Check, CheckedCase, CheckedFinding, is_fault

CONTIGUOUS = "contiguous"
SHOWN_CASES = 3
_COUNTS = re.compile(r"(?<![:\w])\d[\d,]*")
"""Sizes and amounts in a note; not the line of a file, nor what belongs to a name."""


def check_view(words: Catalogue, check: Check) -> ReportView:
    """The report of a check: what failed first, then the matrix."""
    return ReportView(
        kind="check",
        lang=words.lang,
        title=check.subject,
        subtitle=words("check"),
        facts=_facts(words, check),
        cards=_cards(words, check),
        findings=_findings(words, check),
        is_checked=True,
        matrix=_matrix(words, check.cases),
        notes=check.notes,
    )


def _facts(words: Catalogue, check: Check) -> tuple[Fact, ...]:
    judged = {case.dtype: case.tolerance for case in check.cases if case.tolerance is not None}
    tolerances = words("list_separator").join(f"{dtype} {error_text(value)}" for dtype, value in judged.items())
    facts = (("target", check.target), ("tolerances", tolerances), ("smallest_failing", check.smallest_failing))
    return tuple(Fact(words(key), value) for key, value in facts if value)


def _cards(words: Catalogue, check: Check) -> tuple[Card, ...]:
    return (*_matrix_card(words, check), _findings_card(words, check.findings), _launches_card(words, check))


def _matrix_card(words: Catalogue, check: Check) -> tuple[Card, ...]:
    judged = [case for case in check.cases if case.ok is not None]
    if not judged:
        return ()
    right = sum(_holds(case) for case in judged)
    detail = words("card_matrix_detail", refused=len(check.cases) - len(judged))
    tone = "good" if right == len(judged) else "bad"
    return (Card("card_matrix", words("card_matrix"), f"{right}/{len(judged)}", detail, tone),)


def _holds(case: CheckedCase) -> bool:
    return case.ok is True and not case.kinds


def _findings_card(words: Catalogue, findings: Sequence[CheckedFinding]) -> Card:
    counts = {level: sum(each.level == level for each in findings) for level in ("error", "warning", "note")}
    detail = words("card_levels", errors=counts["error"], warnings=counts["warning"], notes=counts["note"])
    tone = "bad" if any(map(is_fault, findings)) else "good"
    return Card("card_findings", words("card_findings"), str(len(findings)), detail, tone)


def _launches_card(words: Catalogue, check: Check) -> Card:
    return Card("card_launches", words("card_launches"), count_text(check.launches))


def _findings(words: Catalogue, check: Check) -> tuple[FindingView, ...]:
    shown = findings_view(words, check.findings)
    return tuple(
        replace(view, source=finding.source, case=_case(words, finding, len(check.cases)))
        for view, finding in zip(shown, check.findings, strict=True)
    )


def _case(words: Catalogue, finding: CheckedFinding, total: int) -> str:
    return words("finding_case", case=finding.case, count=finding.case_count, total=total) if finding.case else ""


def _matrix(words: Catalogue, cases: Sequence[CheckedCase]) -> tuple[Table, ...]:
    """Shapes against dtypes, then the layouts, then the reasons of cases without a figure."""
    plain = [case for case in cases if case.strides == CONTIGUOUS]
    laid_out = [case for case in cases if case.strides not in (CONTIGUOUS, "")]
    tables = (_shapes(words, plain), _layouts(words, laid_out), _reasons(words, cases))
    return tuple(table for table in tables if table is not None)


def _shapes(words: Catalogue, cases: Sequence[CheckedCase]) -> Table | None:
    if not cases:
        return None
    dtypes = list(dict.fromkeys(case.dtype for case in cases))
    rows: dict[str, dict[str, CheckedCase]] = {}
    for case in cases:
        rows.setdefault(_shape_text(case), {})[case.dtype] = case
    columns = [Column("shape", words("shape"), is_code=True), *(Column(name, name) for name in dtypes)]
    return Table(
        columns=tuple(columns),
        rows=tuple(
            (Cell(shape), *(_verdict(words, row[name]) if name in row else Cell("") for name in dtypes))
            for shape, row in rows.items()
        ),
        caption=words("matrix_help"),
    )


def _shape_text(case: CheckedCase) -> str:
    """`[128, 256]  [256]`"""
    return "  ".join(f"[{', '.join(map(str, shape))}]" for shape in case.shape)


def _verdict(words: Catalogue, case: CheckedCase) -> Cell:
    """`✓ 1.2e-07`, `✗ 3.0`, failed or refused; the tolerance and the kinds of findings as its title."""
    title = "; ".join(filter(None, (case.note, ", ".join(case.kinds))))
    if case.ok is None:
        return Cell(f"– {words('case_refused')}", title, "unknown")
    mark = f"{'✓' if case.ok else '✗'} {words('case_failed') if case.error is None else error_text(case.error)}"
    if not case.ok:
        return Cell(mark, title, "bad")
    return Cell(f"{mark} *", title, "masked") if case.kinds else Cell(mark, title, "good")


def _layouts(words: Catalogue, cases: Sequence[CheckedCase]) -> Table | None:
    if not cases:
        return None
    rows: list[Row] = [
        {
            "layout": Cell(case.strides),
            "shape": Cell(_shape_text(case)),
            "dtype": Cell(case.dtype),
            "verdict": _verdict(words, case),
        }
        for case in cases
    ]
    return table(words, ("layout", "shape", "dtype", "verdict"), rows, words("matrix_layouts"))


def _reasons(words: Catalogue, cases: Sequence[CheckedCase]) -> Table | None:
    """One row for each reason, whatever the sizes in it, in the words of the first case that has it."""
    groups: dict[tuple[bool | None, str], list[CheckedCase]] = {}
    for case in sorted(cases, key=lambda case: case.ok is None):
        if case.note:
            groups.setdefault((case.ok, _COUNTS.sub("#", case.note)), []).append(case)
    rows: list[Row] = [
        {"cases": _named(words, group), "why": Cell(short_paths(group[0].note))} for group in groups.values()
    ]
    return table(words, ("cases", "why"), rows, words("matrix_reasons")) if rows else None


def _named(words: Catalogue, cases: Sequence[CheckedCase]) -> Cell:
    """The first cases of a group, and how many there are more; all of them in the title."""
    names = [case.inputs if case.strides in (CONTIGUOUS, "") else f"{case.inputs} {case.strides}" for case in cases]
    more = [words("more_cases", count=len(names) - SHOWN_CASES)] if len(names) > SHOWN_CASES else []
    tone = "plain" if cases[0].ok is None else "bad"
    return Cell("\n".join([*names[:SHOWN_CASES], *more]), "; ".join(names) if more else "", tone)
