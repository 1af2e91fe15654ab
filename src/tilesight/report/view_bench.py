"""What a report says of a bench run, and of two runs against each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tilesight.bench.model import (
    NOT_INSTALLED,
    BenchCase,
    BenchDiff,
    BenchRun,
    Change,
    DeviceState,
    Environment,
    Measured,
)
from tilesight.bench.statistics import quantiles
from tilesight.report.catalogue import Catalogue
from tilesight.report.plot_bench import plot_of
from tilesight.report.texts import bytes_text, count_text, error_text, seconds_text, three_digits
from tilesight.report.view_model import Card, Cell, Fact, Plot, ReportView, Table
from tilesight.report.view_tables import Row, table

SPREAD_COLUMNS = (
    "shape",
    "provider",
    "ok",
    "median",
    "spread",
    "rate",
    "roof_share",
    "host_time",
    "kernel_count",
    "peak_memory",
)
TONES = {"faster": "good", "slower": "bad", "same": "plain"}


def bench_view(words: Catalogue, run: BenchRun) -> ReportView:
    """Tables of one operator each, plots over the shapes, and where it was measured."""
    grouped = [list(cases) for _, cases in groupby(run.cases, lambda case: (case.operator, case.dtype))]
    return ReportView(
        kind="bench",
        lang=words.lang,
        title=run.environment.device,
        subtitle=words("bench"),
        facts=_facts(words, run.environment),
        cards=_cards(words, run),
        times=tuple(_times(words, cases, run.environment) for cases in grouped),
        plots=tuple(Plot(_title(cases), plot_of(words, cases, run.environment)) for cases in grouped if len(cases) > 1),
        notes=(*run.notes, *_notes(words, run)),
    )


def _title(cases: Sequence[BenchCase]) -> str:
    return f"{cases[0].operator} {cases[0].dtype}"


def shape_text(shape: Sequence[int]) -> str:
    """`8192 × 16384`"""
    return " × ".join(map(str, shape))


def _facts(words: Catalogue, environment: Environment) -> tuple[Fact, ...]:
    versions = "  ".join(f"{name} {version}" for name, version in environment.versions.items())
    facts = [("date", environment.date), ("command", environment.command), ("versions", versions)]
    facts += [("driver", environment.driver)]
    if environment.is_gpu:
        states = " → ".join(_state_text(state) for state in (environment.before, environment.after))
        facts.append(("device_state", states))
    return tuple(Fact(words(key), value) for key, value in facts if value)


def _state_text(state: DeviceState) -> str:
    parts = [
        (state.sm_clock_mhz, "MHz"),
        (state.memory_clock_mhz, "MHz"),
        (state.power_w, "W"),
        (state.temperature_c, "°C"),
    ]
    return ", ".join(f"{value:g} {unit}" for value, unit in parts if value is not None)


def _cards(words: Catalogue, run: BenchRun) -> tuple[Card, ...]:
    roof, sheet = run.environment.copy_gb_per_s, run.environment.datasheet_gb_per_s
    detail = words("card_roof_detail", rate=count_text(round(sheet))) if sheet else ""
    wrong = sum(each.ok is False for case in run.cases for each in case.measured)
    hands = [each for case in run.cases for each in case.measured if each.provider == "hand" and each.timing]
    best = sum(case.best is not None and case.best.provider == "hand" for case in run.cases)
    fastest = words("card_of", part=best, count=len(hands))
    return (
        Card("card_roof", words("card_roof"), f"{count_text(round(roof))} GB/s" if roof else "–", detail),
        *((Card("card_hand_best", words("card_hand_best"), fastest),) if run.environment.is_gpu else ()),
        Card("card_wrong", words("card_wrong"), str(wrong), tone="bad" if wrong else "good"),
    )


def _times(words: Catalogue, cases: Sequence[BenchCase], environment: Environment) -> Table:
    rows = [_row(words, case, each, environment) for case in cases for each in case.measured if not _is_missing(each)]
    return table(words, SPREAD_COLUMNS, rows, _title(cases))


def _row(words: Catalogue, case: BenchCase, measured: Measured, environment: Environment) -> Row:
    timing = measured.timing
    row: dict[str, Cell | None] = {key: Cell("") for key in SPREAD_COLUMNS}
    row |= {
        "shape": Cell(shape_text(case.shape)),
        "provider": Cell(
            words.known(measured.provider, measured.provider), tone="good" if measured is case.best else "plain"
        ),
        "ok": _right_cell(words, measured),
    }
    if timing is None:
        return row
    low, middle, high = quantiles(timing.device_s)
    tflops = case.tflop_per_s(timing)
    rate = case.gb_per_s(timing)
    roof = environment.copy_gb_per_s if environment.is_gpu else None
    return row | {
        "median": Cell(seconds_text(middle), tone="good" if measured is case.best else "plain"),
        "spread": Cell(f"{seconds_text(low)} – {seconds_text(high)}", words("samples", count=len(timing.device_s))),
        "rate": Cell(f"{_rate_text(rate)} GB/s" if tflops is None else f"{three_digits(tflops)} TFLOP/s"),
        "roof_share": Cell(f"{rate / roof:.0%}" if roof and tflops is None else ""),
        "host_time": Cell(seconds_text(timing.host_median_s)),
        "kernel_count": Cell("" if timing.kernels is None else str(timing.kernels)),
        "peak_memory": Cell("" if timing.peak_bytes is None else bytes_text(timing.peak_bytes)),
    }


def _rate_text(rate: float) -> str:
    return count_text(round(rate)) if rate >= 100 else three_digits(rate)


def _right_cell(words: Catalogue, measured: Measured) -> Cell:
    if measured.ok is None:
        return Cell("–")
    check = measured.checks[0]
    error = "" if check.max_error is None else error_text(check.max_error)
    return Cell(words("yes" if check.ok else "no"), error, "good" if check.ok else "bad")


def _is_missing(measured: Measured) -> bool:
    return measured.reason.startswith(NOT_INSTALLED)


def _notes(words: Catalogue, run: BenchRun) -> list[str]:
    """Peers that are not installed, and each provider's reason for having no time or no good name."""
    missing = dict.fromkeys(each.provider for case in run.cases for each in case.measured if _is_missing(each))
    notes = [words("not_installed", names=words("list_separator").join(missing))] if missing else []
    for case in run.cases:
        for each in case.measured:
            text = "" if _is_missing(each) else _note(words, each)
            notes += [f"{case.operator} {shape_text(case.shape)}, {each.provider}: {text}"] if text else []
    return notes


def _note(words: Catalogue, measured: Measured) -> str:
    """Why there is no time, or where beside the timed shape the numbers are wrong or inputs are refused."""
    if measured.reason:
        return measured.reason
    beside = [check for check in measured.checks[1:] if not check.ok]
    texts = [words("beside_wrong" if check.ok is False else "beside_refused", what=check.what) for check in beside]
    return "; ".join(texts)


def bench_diff_view(words: Catalogue, diff: BenchDiff) -> ReportView:
    """Changes that are more than noise first."""
    counts = {verdict: sum(each.verdict == verdict for each in diff.changes) for verdict in TONES}
    order = sorted(diff.changes, key=lambda each: (each.verdict == "same", -abs(each.ratio - 1)))
    keys = ("what", "provider", "before", "after", "ratio", "interval", "verdict")
    alone = [("only_before", diff.only_before), ("only_after", diff.only_after)]
    return ReportView(
        kind="bench_diff",
        lang=words.lang,
        title=f"{_name(diff.before)} → {_name(diff.after)}",
        subtitle=words("bench_diff"),
        facts=tuple(
            Fact(words(key), f"{run.environment.date}, {run.environment.device}")
            for key, run in (("before", diff.before), ("after", diff.after))
        ),
        cards=tuple(Card(f"card_{key}", words(key), str(count), tone=TONES[key]) for key, count in counts.items()),
        times=(table(words, keys, [_change_row(words, each) for each in order]),),
        notes=tuple(f"{words(key)}: {', '.join(names)}" for key, names in alone if names),
    )


def _name(run: BenchRun) -> str:
    return "–" if run.number is None else f"#{run.number}"


def _change_row(words: Catalogue, change: Change) -> Row:
    return {
        "what": Cell(f"{change.operator} {shape_text(change.shape)} {change.dtype}"),
        "provider": Cell(words.known(change.provider, change.provider)),
        "before": Cell(seconds_text(change.before_s)),
        "after": Cell(seconds_text(change.after_s)),
        "ratio": Cell(f"{change.ratio:.3f}"),
        "interval": Cell(f"{change.low:.3f} – {change.high:.3f}"),
        "verdict": Cell(words(change.verdict), tone=TONES[change.verdict]),
    }
