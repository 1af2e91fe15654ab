"""The hand-written road: what a report says of one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilesight.checks.finding import Finding
from tilesight.ledger.model import AccessRow, Bytes
from tilesight.report.catalogue import Catalogue
from tilesight.report.picture_tiles import tiles_picture
from tilesight.report.texts import (
    bytes_text,
    count_text,
    exact_bytes,
    grid_text,
    settings_text,
    short_source,
    tensor_type_text,
)
from tilesight.report.view_code import code
from tilesight.report.view_model import Card, Cell, Fact, FindingView, ReportView, Table
from tilesight.report.view_tables import Row, bars, bytes_cell, count_cell, table, text_or_not_measured
from tilesight.roads.model import Trace, is_fault

ACCESS_COLUMNS = ("line", "access", "tensor", "lanes", "masked", "out_of_bounds", "requested", "touched")


def trace_view(words: Catalogue, trace: Trace, prefix: str = "") -> ReportView:
    """The report of one launch; `prefix` keeps its anchors apart from other launches' in one page."""
    picture = tiles_picture(words, trace)
    return ReportView(
        kind="trace",
        lang=words.lang,
        title=trace.kernel,
        subtitle=words("trace"),
        facts=_facts(words, trace),
        cards=trace_cards(words, trace),
        findings=findings_view(words, trace.findings),
        is_checked=True,
        code=code(words, (trace,), (), prefix) if trace.source else None,
        bars=bars(words, _figures(trace.traffic.bytes)),
        has_ledger=True,
        tiles=(picture,) if picture else (),
        accesses=(access_table(words, trace),),
        notes=(words("not_executed", reason=trace.not_executed),) if trace.not_executed else (),
    )


def _figures(moved: Bytes) -> tuple[tuple[str, int | None], ...]:
    return ("requested", moved.requested), ("touched", moved.touched), ("dram", moved.dram)


def _facts(words: Catalogue, trace: Trace) -> tuple[Fact, ...]:
    tensors = ", ".join(f"{t.name} {tensor_type_text(t.dtype, t.shape)}" for t in trace.tensors)
    place = f"{trace.file}:{trace.first_line}" if trace.file else ""
    facts = (
        ("file", place),
        ("grid", grid_text(trace.grid)),
        ("tensors", tensors),
        ("constexprs", settings_text(trace.constexprs)),
        ("options", settings_text(trace.options)),
        ("executed_on", words.known(trace.executed_on, trace.executed_on)),
    )
    return tuple(Fact(words(key), value) for key, value in facts if value)


def trace_cards(words: Catalogue, trace: Trace) -> tuple[Card, ...]:
    """Programs, masked lanes, bytes and findings of a launch."""
    grid = grid_text(trace.grid)
    lanes = count_text(trace.tiles.tile_lanes) if trace.tiles else ""
    tile = words("card_programs_detail", grid=grid, lanes=lanes) if lanes else words("card_programs_grid", grid=grid)
    moved = trace.traffic.bytes
    detail = f"{words('touched')} {text_or_not_measured(words, moved.touched, bytes_text)}"
    rows = trace.traffic.rows
    masked = sum(row.masked_lanes for row in rows)
    return (
        Card("card_programs", words("card_programs"), count_text(trace.programs), tile),
        masked_card(words, masked, sum(row.lanes for row in rows)),
        Card(
            "card_bytes",
            words("card_bytes"),
            text_or_not_measured(words, moved.requested, bytes_text),
            f"{words('requested')}; {detail}",
            "plain" if moved.requested is not None else "unknown",
        ),
        findings_card(words, trace.findings),
    )


def masked_card(words: Catalogue, masked: int, lanes: int) -> Card:
    detail = words("card_masked_detail", lanes=count_text(lanes))
    return Card("card_masked", words("card_masked"), count_text(masked), detail)


def findings_card(words: Catalogue, findings: Sequence[Finding]) -> Card:
    tone = "bad" if any(map(is_fault, findings)) else "good"
    return Card("card_findings", words("card_findings"), str(len(findings)), words("card_findings_detail"), tone)


def findings_view(words: Catalogue, findings: Sequence[Finding]) -> tuple[FindingView, ...]:
    """Each finding in words, with the programs and lanes that show it; the first of each kind names its page."""
    first = {finding.kind: index for index, finding in reversed(list(enumerate(findings)))}
    shown = [_finding(words, finding) for finding in findings]
    return tuple(
        replace(view, more=f"tilesight check --explain {view.kind}") if first[view.kind] == index else view
        for index, view in enumerate(shown)
    )


def _finding(words: Catalogue, finding: Finding) -> FindingView:
    place = f"{finding.file}:{finding.line}"
    programs = ", ".join(map(str, finding.programs))
    if programs and finding.program_count > len(finding.programs):
        programs = words("finding_more", shown=programs, count=count_text(finding.program_count))
    return FindingView(
        kind=finding.kind,
        place=place,
        short_place=short_source(place),
        lanes=_lanes(words, finding, programs) if programs else "",
        tensor=finding.tensor,
        message=finding.message,
        hint=finding.hint,
        level=finding.level,
    )


def _lanes(words: Catalogue, finding: Finding, programs: str) -> str:
    if not finding.lane_count:
        return words("finding_programs", programs=programs)
    first, last = finding.lanes
    lanes = count_text(finding.lane_count)
    if first == last:
        key = "finding_where_only" if finding.lane_count == 1 else "finding_where_lane"
        return words(key, programs=programs, first=first, lanes=lanes)
    return words("finding_where", programs=programs, first=first, last=last, lanes=lanes)


def access_table(words: Catalogue, trace: Trace) -> Table:
    """Each load, store and atomic by source line, and the sum of the bytes."""
    rows: list[Row] = [_access_row(words, row) for row in trace.traffic.rows]
    rows.append(_total_row(words, trace))
    title = f"{trace.kernel} {grid_text(trace.grid)}"
    return table(words, ACCESS_COLUMNS, rows, title)


def _access_row(words: Catalogue, row: AccessRow) -> Row:
    share = f"{row.masked_lanes / row.lanes:.2%}" if row.lanes else ""
    outside = row.out_of_bounds_lanes
    return {
        "line": Cell(str(row.line)),
        "access": Cell(words.known(row.kind, row.kind), tone=row.kind),
        "tensor": Cell(row.tensor),
        "lanes": count_cell(row.lanes),
        "masked": Cell(count_text(row.masked_lanes), share, "masked" if row.masked_lanes else "plain"),
        "out_of_bounds": Cell(count_text(outside), tone="bad") if outside else Cell(""),
        "requested": bytes_cell(row.bytes),
        "touched": bytes_cell(row.touched),
    }


def _total_row(words: Catalogue, trace: Trace) -> Row:
    moved, rows = trace.traffic.bytes, trace.traffic.rows
    outside = sum(row.out_of_bounds_lanes for row in rows)
    return {
        "line": Cell(""),
        "access": Cell(words("total"), tone="total"),
        "tensor": Cell(""),
        "lanes": count_cell(sum(row.lanes for row in rows)),
        "masked": count_cell(sum(row.masked_lanes for row in rows)),
        "out_of_bounds": Cell(count_text(outside), tone="bad") if outside else Cell(""),
        "requested": _byte_total(moved.requested),
        "touched": _byte_total(moved.touched),
    }


def _byte_total(count: int | None) -> Cell | None:
    return None if count is None else Cell(bytes_text(count), exact_bytes(count), "total")
