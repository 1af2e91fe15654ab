"""What a report says of two observations against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilesight.report.catalogue import Catalogue
from tilesight.report.texts import bytes_text, count_text, microseconds_text, seconds_text
from tilesight.report.view_model import Card, Cell, Fact, ReportView, Table, TextDiff
from tilesight.report.view_tables import Row, table
from tilesight.roads.diff_model import Figure, KernelChange, ListChange, ObservationDiff

_TEXTS: dict[str, Callable[..., str]] = {
    "predicted_us": microseconds_text,
    "cold_s": seconds_text,
    "warm_s": seconds_text,
}
_BYTES = ("requested", "touched", "dram", "shared_bytes")
_WORDS = {"predicted_us": "predicted", "shared_bytes": "shared"}
_KINDS = {"+": "added", "-": "removed", "@": "place"}


def diff_view(words: Catalogue, diff: ObservationDiff) -> ReportView:
    """The report of what differs; what is the same is counted."""
    return ReportView(
        kind="diff",
        lang=words.lang,
        title=f"{diff.before} → {diff.after}",
        subtitle=words("diff"),
        facts=tuple(Fact(words(each.key), _change_text(words, each)) for each in diff.settings if _is_known(each)),
        cards=_cards(words, diff),
        changes=tuple(
            filter(None, (_figures_table(words, diff), _kernels_table(words, diff), _lists_table(words, diff)))
        ),
        source_changes=tuple(_text_diff(kernel) for kernel in diff.kernels if kernel.source),
    )


def _is_known(figure: Figure) -> bool:
    return figure.before is not None or figure.after is not None


def _change_text(words: Catalogue, figure: Figure) -> str:
    before, after = (_text(words, figure.key, value) for value in (figure.before, figure.after))
    return f"{before} → {after}" if figure.is_changed else after


def _text(words: Catalogue, key: str, value: int | float | str | None) -> str:
    if value is None:
        return words("not_measured")
    if isinstance(value, str):
        return value
    if key in _TEXTS:
        return _TEXTS[key](value)
    return bytes_text(int(value)) if key.endswith("_bytes") or key in _BYTES else count_text(int(value))


def _cards(words: Catalogue, diff: ObservationDiff) -> tuple[Card, ...]:
    figures = {figure.key: figure for figure in diff.figures}
    same = sum(kernel.status == "same" for kernel in diff.kernels)
    detail = words("card_diff_detail", same=same, count=len(diff.kernels))
    value = words("diff_none" if diff.is_same else "diff_some")
    shown = (("card_kernels", "kernel_count"), ("card_bytes", "compiled_bytes"), ("card_breaks", "break_count"))
    return (
        Card("card_diff", words("card_diff"), value, detail, "good" if diff.is_same else "plain"),
        *(Card(card, words(card), _change_text(words, figures[key])) for card, key in shown),
        Card("card_compile", words("card_compile"), _change_text(words, figures["cold_s"])),
    )


def _figures_table(words: Catalogue, diff: ObservationDiff) -> Table | None:
    rows = [_row(words, words(each.key), each) for each in diff.figures if each.is_changed]
    return table(words, ("what", "before", "after"), rows) if rows else None


def _row(words: Catalogue, name: str, figure: Figure) -> Row:
    return {
        "what": Cell(name),
        "before": Cell(_text(words, figure.key, figure.before)),
        "after": Cell(_text(words, figure.key, figure.after)),
    }


def _kernels_table(words: Catalogue, diff: ObservationDiff) -> Table | None:
    """One row a kernel that is not the same, and one for each of its figures."""
    rows = [row for kernel in diff.kernels if kernel.status != "same" for row in _kernel_rows(words, kernel)]
    return table(words, ("status", "what", "before", "after"), rows, words("card_kernels")) if rows else None


def _kernel_rows(words: Catalogue, kernel: KernelChange) -> Sequence[Row]:
    head: Row = {
        "status": Cell(words(f"status_{kernel.status}")),
        "what": Cell(words("kernel")),
        "before": Cell(kernel.before),
        "after": Cell(kernel.after),
    }
    keys = [words(_WORDS.get(each.key, each.key)) for each in kernel.figures]
    rows = [_row(words, name, each) for name, each in zip(keys, kernel.figures, strict=True)]
    return [head, *({**row, "status": Cell("")} for row in rows)]


def _lists_table(words: Catalogue, diff: ObservationDiff) -> Table | None:
    rows: list[Row] = [
        {"what": Cell(words(change.key)), "status": Cell(words(f"status_{status}")), "entry": Cell(text)}
        for change in diff.lists
        for status, texts in _sides(change)
        for text in texts
    ]
    return table(words, ("what", "status", "entry"), rows) if rows else None


def _sides(change: ListChange) -> Sequence[tuple[str, tuple[str, ...]]]:
    return ("removed", change.removed), ("added", change.added)


def _text_diff(kernel: KernelChange) -> TextDiff:
    lines = [line for line in kernel.source if not line.startswith(("--- ", "+++ "))]
    title = kernel.after if kernel.before == kernel.after else f"{kernel.before} → {kernel.after}"
    return TextDiff(title, tuple((_KINDS.get(line[:1], "same"), line) for line in lines))
