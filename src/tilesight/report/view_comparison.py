"""Both roads side by side: what a report says of a comparison, and of a whole script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilesight.report.catalogue import Catalogue
from tilesight.report.picture_graph import graph_picture
from tilesight.report.picture_tiles import tiles_picture
from tilesight.report.serialize import to_dict
from tilesight.report.texts import (
    bytes_text,
    error_text,
    microseconds_text,
    share_text,
    three_digits,
)
from tilesight.report.view_code import code, pairs
from tilesight.report.view_model import Card, Cell, Code, Fact, ReportView, Table
from tilesight.report.view_observation import (
    breaks_table,
    compile_facts,
    kernels_table,
    not_fused_table,
    observation_facts,
    observation_view,
    trips_table,
)
from tilesight.report.view_tables import Row, bars, bytes_cells, figure, table, text_or_not_measured
from tilesight.report.view_trace import access_table, findings_card, findings_view, trace_view
from tilesight.roads.model import Comparison, Provider, ScriptRun, Trace

PROVIDER_COLUMNS = (
    "provider", "ok", "max_error", "tolerance", "requested", "touched", "dram", "round_trips",
    "kernel_count", "predicted", "measured", "roofline", "note",
)  # fmt: skip


def comparison_view(words: Catalogue, comparison: Comparison) -> ReportView:
    """The report of a case on both roads."""
    seen, hand = comparison.observation, comparison.hand
    findings = [finding for trace in hand for finding in trace.findings]
    sources = code(words, hand, seen.kernels, "")
    return ReportView(
        kind="compare",
        lang=words.lang,
        title=comparison.case,
        subtitle=words("compare"),
        facts=_facts(words, comparison),
        cards=_cards(words, comparison),
        findings=findings_view(words, findings),
        is_checked=bool(hand),
        numerics=_numerics(words, comparison.providers),
        graph=graph_picture(words, seen),
        code=Code(sources.hand, sources.generated, pairs(words, comparison.pairs, sources)),
        bars=bars(words, _figures(comparison)),
        trips=trips_table(words, [(provider.name, provider.round_trips) for provider in comparison.providers]),
        has_ledger=True,
        tiles=tuple(picture for trace in hand if (picture := tiles_picture(words, trace))),
        accesses=tuple(access_table(words, trace) for trace in hand),
        kernels=kernels_table(words, seen.kernels),
        compile=compile_facts(words, seen),
        not_fused=not_fused_table(words, seen),
        breaks=breaks_table(words, seen.breaks),
        notes=seen.notes,
    )


def _facts(words: Catalogue, comparison: Comparison) -> tuple[Fact, ...]:
    seen = replace(comparison.observation, inputs=comparison.inputs, target=comparison.target)
    files = dict.fromkeys(f"{trace.file}:{trace.first_line}" for trace in comparison.hand if trace.file)
    place = (Fact(words("file"), ", ".join(files)),) if files else ()
    return observation_facts(words, seen) + place


def _figures(comparison: Comparison) -> list[tuple[str, int | None]]:
    return [
        *((provider.name, moved_bytes(provider)) for provider in comparison.providers),
        ("ideal", comparison.ideal_bytes),
    ]


def moved_bytes(provider: Provider) -> int | None:
    """The bytes a provider is judged by: from DRAM where known, else the bytes touched, else requested."""
    moved = provider.bytes
    return next((count for count in (moved.dram, moved.touched, moved.requested) if count is not None), None)


def _cards(words: Catalogue, comparison: Comparison) -> tuple[Card, ...]:
    ideal = comparison.ideal_bytes
    findings = [finding for trace in comparison.hand for finding in trace.findings]
    return (
        _correct_card(words, comparison.providers),
        *(_bytes_card(words, provider, ideal) for provider in comparison.providers),
        Card("card_ideal", words("card_ideal"), bytes_text(ideal), words("card_ideal_detail")),
        *((findings_card(words, findings),) if comparison.hand else ()),
    )


def _correct_card(words: Catalogue, providers: Sequence[Provider]) -> Card:
    judged = [provider for provider in providers if provider.ok is not None]
    right = sum(provider.ok is True for provider in judged)
    value = f"{right}/{len(judged)}" if judged else words("not_measured")
    tone = "unknown" if not judged else "good" if right == len(judged) else "bad"
    return Card("card_correct", words("card_correct"), value, words("card_correct_detail"), tone)


def _bytes_card(words: Catalogue, provider: Provider, ideal: int) -> Card:
    moved = moved_bytes(provider)
    detail = words("card_times_ideal", factor=three_digits(moved / ideal)) if moved is not None and ideal else ""
    label = words("labelled", name=words.known(provider.name, provider.name), what=words("bytes"))
    value = text_or_not_measured(words, moved, bytes_text)
    tone = provider.name if moved is not None else "unknown"
    return Card(f"card_bytes_{provider.name}", label, value, detail, tone)


def _numerics(words: Catalogue, providers: Sequence[Provider]) -> Table:
    return table(words, PROVIDER_COLUMNS, [_provider_row(words, provider) for provider in providers])


def _provider_row(words: Catalogue, provider: Provider) -> Row:
    return {
        "provider": Cell(words.known(provider.name, provider.name), tone=provider.name),
        "ok": None if provider.ok is None else _verdict(words, provider.ok),
        "max_error": figure(provider.max_error, error_text),
        "tolerance": figure(provider.tolerance, error_text),
        **bytes_cells(provider.bytes),
        "round_trips": Cell(str(len(provider.round_trips)), ", ".join(trip.tensor for trip in provider.round_trips)),
        "kernel_count": Cell(str(len(provider.kernels)) if provider.kernels else "", "\n".join(provider.kernels)),
        "predicted": figure(provider.predicted_us, microseconds_text),
        "measured": figure(provider.measured_us, microseconds_text),
        "roofline": figure(provider.roofline_share, share_text),
        "note": Cell(provider.note),
    }


def _verdict(words: Catalogue, ok: bool) -> Cell:
    return Cell(words("yes"), tone="good") if ok else Cell(words("no"), tone="bad")


def script_view(words: Catalogue, run: ScriptRun) -> ReportView:
    """The report of a script: its findings first, then each different launch and each region."""
    launches = _alike(run.launches)
    findings = [finding for trace in run.launches for finding in trace.findings]
    children = [_launch(words, number, trace, count) for number, trace, count in launches]
    for number, region in enumerate(run.regions, start=1):
        name = words("region", number=number, name=region.subject)
        children.append(replace(observation_view(words, region, f"r{number}"), title=name))
    return ReportView(
        kind="run",
        lang=words.lang,
        title=run.script,
        subtitle=words("run"),
        facts=(Fact(words("exit"), str(run.exit)),),
        cards=_script_cards(words, run),
        findings=findings_view(words, list(dict.fromkeys(findings))),
        is_checked=bool(run.launches),
        notes=run.notes,
        children=tuple(children),
    )


def _launch(words: Catalogue, number: int, trace: Trace, count: int) -> ReportView:
    key = "launch" if count == 1 else "launch_repeated"
    name = words(key, number=number, name=trace.kernel, count=count)
    return replace(trace_view(words, trace, f"l{number}"), title=name)


def _alike(traces: Sequence[Trace]) -> list[tuple[int, Trace, int]]:
    """(number of the first, its trace, how many) of the launches that agree in every figure."""
    groups: dict[str, list[int]] = {}
    for number, trace in enumerate(traces):
        groups.setdefault(str(to_dict(trace)), []).append(number)
    return [(numbers[0] + 1, traces[numbers[0]], len(numbers)) for numbers in groups.values()]


def _script_cards(words: Catalogue, run: ScriptRun) -> tuple[Card, ...]:
    kernels = {(trace.file, trace.kernel) for trace in run.launches}
    findings = list(dict.fromkeys(finding for trace in run.launches for finding in trace.findings))
    detail = words("card_launches_detail", kernels=len(kernels))
    exit_tone = "bad" if run.exit else "good"
    return (
        Card("card_launches", words("card_launches"), str(len(run.launches)), detail),
        Card("card_regions", words("card_regions"), str(len(run.regions))),
        findings_card(words, findings),
        Card("card_exit", words("card_exit"), str(run.exit), tone=exit_tone),
    )
