"""The compiled road: what a report says of an observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilesight.ledger.model import Ledger, RoundTrip
from tilesight.report.catalogue import Catalogue
from tilesight.report.picture_graph import graph_picture
from tilesight.report.picture_timeline import timeline_facts, timeline_picture
from tilesight.report.texts import (
    bytes_text,
    grid_text,
    microseconds_text,
    seconds_text,
    settings_text,
    share_text,
    short_source,
)
from tilesight.report.view_chain import chain_view, linked_code, linked_picture
from tilesight.report.view_code import code
from tilesight.report.view_model import Card, Cell, Fact, ReportView, Table
from tilesight.report.view_tables import (
    Row,
    bars,
    bytes_cell,
    bytes_cells,
    count_cell,
    figure,
    table,
    text_or_not_measured,
)
from tilesight.roads.model import Break, Kernel, Observation

KERNEL_COLUMNS = (
    "kernel", "kind", "ops", "lines", "grid", "config", "requested", "touched", "dram", "flops",
    "registers", "spills", "shared", "occupancy", "predicted",
)  # fmt: skip
SHOWN_NODES = 3
"""ATen nodes of a kernel that are named in a table."""


def observation_view(words: Catalogue, seen: Observation, prefix: str = "") -> ReportView:
    """The report of an observation; `prefix` keeps its anchors apart from others in one page."""
    return ReportView(
        kind="observe",
        lang=words.lang,
        title=seen.subject,
        subtitle=words("observe"),
        facts=observation_facts(words, seen),
        cards=_cards(words, seen),
        graph=linked_picture(graph_picture(words, seen), seen.links),
        chain=chain_view(words, seen),
        code=linked_code(code(words, (), seen.kernels, prefix), seen.kernels, seen.links),
        bars=bars(words, ledger_figures(seen.ledger)),
        trips=trips_table(words, (("eager", seen.ledger.eager_round_trips), ("compiled", seen.ledger.round_trips))),
        has_ledger=True,
        kernels=kernels_table(words, seen.kernels),
        compile=compile_facts(words, seen),
        timeline=timeline_picture(words, seen.timeline),
        not_fused=not_fused_table(words, seen),
        breaks=breaks_table(words, seen.breaks),
        failures=breaks_table(words, seen.failures),
        recompiles=lines_table(words, "reason", seen.recompiles),
        guards=lines_table(words, "guard", sorted(dict.fromkeys(seen.guards), key=_is_ambient)),
        notes=seen.notes,
    )


def observation_facts(words: Catalogue, seen: Observation) -> tuple[Fact, ...]:
    facts = (
        ("inputs", ", ".join(seen.inputs)),
        ("target", seen.target),
        ("torch", seen.torch),
        ("triton", seen.triton),
    )
    return tuple(Fact(words(key), value) for key, value in facts if value)


def ledger_figures(ledger: Ledger) -> tuple[tuple[str, int | None], ...]:
    """The ledger's bars from top to bottom."""
    return ("eager", ledger.eager_bytes), ("compiled", ledger.compiled_bytes), ("ideal", ledger.ideal_bytes)


def _cards(words: Catalogue, seen: Observation) -> tuple[Card, ...]:
    ledger = seen.ledger
    triton = sum(kernel.kind == "triton" for kernel in seen.kernels)
    cpp = sum(kernel.kind == "cpp" for kernel in seen.kernels)
    extern = len(seen.kernels) - triton - cpp
    key = "card_kernels_detail_cpp" if cpp else "card_kernels_detail"
    kinds = words(key, triton=triton, cpp=cpp, extern=extern, ops=len(seen.graph.ops))
    eager = text_or_not_measured(words, ledger.eager_bytes, bytes_text)
    ideal = text_or_not_measured(words, ledger.ideal_bytes, bytes_text)
    return (
        Card("card_kernels", words("card_kernels"), str(len(seen.kernels)), kinds),
        Card(
            "card_bytes",
            words("card_bytes"),
            text_or_not_measured(words, ledger.compiled_bytes, bytes_text),
            words("card_bytes_detail", eager=eager, ideal=ideal),
            "plain" if ledger.compiled_bytes is not None else "unknown",
        ),
        *_trips_card(words, ledger),
        breaks_card(words, seen),
        _compile_card(words, seen),
        *_predicted_card(words, seen.kernels),
    )


def _trips_card(words: Catalogue, ledger: Ledger) -> tuple[Card, ...]:
    """Round trips removed, where both roads' bytes, and so their round trips, are known."""
    if ledger.eager_bytes is None or ledger.compiled_bytes is None:
        return ()
    eager, compiled = len(ledger.eager_round_trips), len(ledger.round_trips)
    detail = words("card_trips_detail", eager=eager, compiled=compiled)
    return (Card("card_trips", words("card_trips"), str(eager - compiled), detail),)


def breaks_card(words: Catalogue, seen: Observation) -> Card:
    count = len(seen.breaks)
    detail = short_source(seen.breaks[0].source) if seen.breaks else words("card_breaks_detail")
    return Card("card_breaks", words("card_breaks"), str(count), detail, "bad" if count else "good")


def _compile_card(words: Catalogue, seen: Observation) -> Card:
    times = seen.compile
    warm = words("card_compile_detail", warm=text_or_not_measured(words, times.warm_s, seconds_text))
    value = text_or_not_measured(words, times.cold_s, seconds_text)
    return Card("card_compile", words("card_compile"), value, warm, "plain" if times.cold_s is not None else "unknown")


def _predicted_card(words: Catalogue, kernels: Sequence[Kernel]) -> tuple[Card, ...]:
    times = [kernel.predicted_us for kernel in kernels]
    known = [time for time in times if time is not None]
    if not known or len(known) < len(times):
        return ()
    return (Card("card_predicted", words("card_predicted"), microseconds_text(sum(known))),)


def compile_facts(words: Catalogue, seen: Observation) -> tuple[Fact, ...]:
    """First and second compilation, and what was cached."""
    times = seen.compile
    return (
        Fact(words("cold"), text_or_not_measured(words, times.cold_s, seconds_text)),
        Fact(words("warm"), text_or_not_measured(words, times.warm_s, seconds_text)),
        Fact(words("cache"), times.cache or words("not_measured")),
        *timeline_facts(words, seen.timeline),
    )


def kernels_table(words: Catalogue, kernels: Sequence[Kernel]) -> Table | None:
    """One row a kernel: what it runs, how it is launched, what it moves and uses."""
    several = len({kernel.graph for kernel in kernels}) > 1
    columns = (KERNEL_COLUMNS[0], "of_graph", *KERNEL_COLUMNS[1:]) if several else KERNEL_COLUMNS
    return table(words, columns, [_kernel_row(words, kernel) for kernel in kernels]) if kernels else None


def _kernel_row(words: Catalogue, kernel: Kernel) -> Row:
    is_triton = kernel.kind == "triton"
    absent = None if is_triton else Cell("–")
    return {
        "kernel": Cell(kernel.name),
        "of_graph": Cell(words.known(f"graph_{kernel.graph}", kernel.graph)),
        "kind": Cell(kernel.kind),
        "ops": Cell(", ".join(kernel.ops)),
        "lines": Cell(", ".join(map(short_source, kernel.source_lines)), "\n".join(kernel.source_lines)),
        "grid": Cell(grid_text(kernel.grid)) if kernel.grid else absent,
        "config": Cell(settings_text(kernel.config)),
        **bytes_cells(kernel.bytes),
        "flops": count_cell(kernel.flops),
        "registers": count_cell(kernel.registers),
        "spills": count_cell(kernel.spills),
        "shared": bytes_cell(kernel.shared_bytes),
        "occupancy": figure(kernel.occupancy, share_text),
        "predicted": figure(kernel.predicted_us, microseconds_text),
    }


def trips_table(words: Catalogue, roads: Sequence[tuple[str, Sequence[RoundTrip]]]) -> Table | None:
    """The round trips of each road, by name; None when there are none."""
    rows = [_trip_row(words, road, trip) for road, trips in roads for trip in trips]
    return table(words, ("road", "tensor", "bytes", "written_by", "read_by"), rows) if rows else None


def _trip_row(words: Catalogue, road: str, trip: RoundTrip) -> Row:
    return {
        "road": Cell(words.known(road, road), tone=road),
        "tensor": Cell(trip.tensor),
        "bytes": bytes_cell(trip.bytes),
        "written_by": Cell(trip.written_by),
        "read_by": Cell(", ".join(trip.read_by)),
    }


def not_fused_table(words: Catalogue, seen: Observation) -> Table | None:
    """The pairs left apart, the dearest first: who they are, why, and what that costs."""
    if not seen.not_fused:
        return None
    rows: list[Row] = [
        {
            "a": _nodes_cell(pair.a),
            "b": _nodes_cell(pair.b),
            "tensor": Cell(", ".join(pair.tensors)),
            "bytes": bytes_cell(pair.bytes),
            "predicted": figure(pair.predicted_us, microseconds_text),
            "reason": Cell(f"{pair.reason}: {pair.meaning}" if pair.meaning else pair.reason),
        }
        for pair in seen.not_fused
    ]
    shown = table(words, ("a", "b", "tensor", "bytes", "predicted", "reason"), rows)
    is_predicted = any(pair.predicted_us is not None for pair in seen.not_fused)
    return replace(shown, caption=words("not_fused_time", target=seen.target)) if is_predicted else shown


def _nodes_cell(nodes: str) -> Cell:
    """ATen nodes that a kernel runs; of many the first and the last."""
    names = nodes.split(" + ")
    short = nodes if len(names) <= SHOWN_NODES else f"{names[0]} … {names[-1]} ({len(names)})"
    return Cell(short, nodes if short != nodes else "")


def breaks_table(words: Catalogue, breaks: Sequence[Break]) -> Table | None:
    """One row a break, or a part that was not compiled; None when there are none."""
    if not breaks:
        return None
    rows: list[Row] = [{"source": Cell(each.source), "reason": Cell(each.reason)} for each in breaks]
    return table(words, ("source", "reason"), rows)


def _is_ambient(guard: str) -> bool:
    """The guard holds for every function; those that the user's lines bring about have the line behind them."""
    return "# " not in guard or "_dynamo/" in guard.rsplit("# ", 1)[1]


def lines_table(words: Catalogue, column: str, lines: Sequence[str]) -> Table | None:
    """One column of texts; None when there are none."""
    return table(words, (column,), [{column: Cell(line)} for line in lines]) if lines else None
