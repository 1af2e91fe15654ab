"""The terminal's pictures: kernels with their parts in the margin, bars, a row of tiles."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tilesight.report.catalogue import Catalogue
from tilesight.report.view_model import Bar, Source, SourceLine, TilesPicture

BAR_WIDTH = 40
SHOWN_LINES = 60
"""Lines of one kernel that are printed; the HTML report has the rest."""

PART_STYLES = {"program_id": "blue", "load": "green", "store": "green", "mask": "yellow"}


def legend(words: Catalogue) -> Text:
    """The colours of the three parts."""
    marks = (("program_id", "part_program_id"), ("load", "part_memory"), ("mask", "part_mask"))
    return Text("   ").join(Text(words(key), PART_STYLES[part]) for part, key in marks)


def kernel_lines(words: Catalogue, source: Source) -> list[RenderableType]:
    """The kernel from its decorator on, line numbers and parts in the margin."""
    lines = source.lines[source.folded :]
    head = Text.assemble((source.title, "bold"), "  ", (source.subtitle, "dim"))
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines[:SHOWN_LINES]:
        grid.add_row(*_kernel_line(words, line))
    if len(lines) <= SHOWN_LINES:
        return [head, grid]
    return [head, grid, Text(words("more_lines", count=len(lines) - SHOWN_LINES), "dim")]


def _kernel_line(words: Catalogue, line: SourceLine) -> tuple[Text, Text, Text]:
    tags = "+".join(words(f"tag_{part}") for part in line.parts)
    style = "bold red" if line.finding else PART_STYLES.get(line.part, "")
    mark = "!" if line.finding else " "
    return Text(str(line.number), "dim"), Text(f"{mark}{tags:<9}", style), Text(line.text, style)


def bar_lines(bars: Sequence[Bar]) -> list[Text]:
    """A bar of `#` for each figure, its bytes before it; none for a figure not measured."""
    label_width = max((cell_len(bar.label) for bar in bars), default=0)
    value_width = max((cell_len(bar.value) for bar in bars if bar.share is not None), default=0)
    return [_bar_line(bar, label_width, value_width) for bar in bars]


def _bar_line(bar: Bar, label_width: int, value_width: int) -> Text:
    label = bar.label + " " * (label_width - cell_len(bar.label))
    if bar.share is None:
        return Text.assemble(label, "  ", (bar.value, "dim italic"))
    length = max(round(bar.share * BAR_WIDTH), 1 if bar.share else 0)
    return Text.assemble(label, "  ", f"{bar.value:>{value_width}}", "  ", ("#" * length, "cyan"))


def tile_lines(picture: TilesPicture) -> list[Text]:
    """The tensor, a row of tiles with the tail set apart, and the tail's lanes."""
    row = Text(" ").join(
        Text(f"… {tile.label} …", "dim") if tile.is_gap else Text(f"[{tile.label}]", "yellow" if tile.off_share else "")
        for tile in picture.tiles
    )
    lines = [Text(picture.title, "bold"), Text(picture.help, "dim"), row]
    if picture.tail is None:
        return [*lines, Text(picture.no_tail, "dim")]
    tail = picture.tail
    off = "yellow" if tail.is_masked else "bold red"
    return [*lines, Text.assemble(f"{tail.heading}  {tail.on_text}, ", (tail.off_text, off), f" ({tail.end})")]
