"""Cells and tables from figures that may be missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tilesight.ledger.model import Bytes
from tilesight.report.catalogue import Catalogue
from tilesight.report.texts import bytes_text, count_text, exact_bytes
from tilesight.report.view_model import Bar, Cell, Column, Table

Figure = TypeVar("Figure", int, float)
Row = Mapping[str, Cell | None]

_NUMBERS = {
    "max_error", "tolerance", "bytes", "requested", "touched", "dram", "round_trips", "kernel_count", "peak_memory",
    "predicted", "measured", "roofline", "flops", "registers", "spills", "shared", "occupancy", "lanes",
    "masked", "out_of_bounds", "line", "programs", "grid",
}  # fmt: skip
_CODE = {"kernel", "ops", "lines", "config", "tensor", "written_by", "read_by", "a", "b", "source"}


def figure(value: Figure | None, text: Callable[[Figure], str]) -> Cell | None:
    """The figure's cell; None for one that was not measured."""
    return None if value is None else Cell(text(value))


def bytes_cell(count: int | None) -> Cell | None:
    """Bytes in short, with the exact count as the cell's title."""
    return None if count is None else Cell(bytes_text(count), exact_bytes(count))


def bytes_cells(moved: Bytes) -> dict[str, Cell | None]:
    """The three counts of a `Bytes` under their columns."""
    return {
        "requested": bytes_cell(moved.requested),
        "touched": bytes_cell(moved.touched),
        "dram": bytes_cell(moved.dram),
    }


def count_cell(count: int | None) -> Cell | None:
    return figure(count, count_text)


def text_or_not_measured(words: Catalogue, value: Figure | None, text: Callable[[Figure], str]) -> str:
    """The figure as text, or the words for one that was not measured: never 0."""
    return words("not_measured") if value is None else text(value)


def table(words: Catalogue, keys: Sequence[str], rows: Sequence[Row], title: str = "") -> Table:
    """A table of the columns in `keys`.

    A column that nobody filled is left out: named in the caption when its figures were not measured
    (None), silently when all of its texts are empty.
    """
    missing = [key for key in keys if rows and all(row[key] is None for row in rows)]
    kept = [key for key in keys if key not in missing and any(_is_shown(row[key]) for row in rows)]
    unknown = Cell(words("not_measured"), tone="unknown")
    caption = (
        words("not_measured_columns", columns=words("list_separator").join(map(words, missing))) if missing else ""
    )
    return Table(
        columns=tuple(Column(key, words(key), key in _NUMBERS, key in _CODE) for key in kept),
        rows=tuple(tuple(row[key] or unknown for key in kept) for row in rows),
        title=title,
        caption=caption,
    )


def _is_shown(cell: Cell | None) -> bool:
    return cell is None or bool(cell.text)


def bars(words: Catalogue, figures: Sequence[tuple[str, int | None]]) -> tuple[Bar, ...]:
    """One bar for each (catalogue key, bytes); the longest has share 1."""
    longest = max((count for _, count in figures if count is not None), default=0) or 1
    return tuple(
        Bar(
            key=key,
            label=words.known(key, key),
            value=text_or_not_measured(words, count, bytes_text),
            title="" if count is None else exact_bytes(count),
            share=None if count is None else count / longest,
        )
        for key, count in figures
    )
