"""A report in the terminal: compact, readable in 100 columns, plain text when piped."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from tilesight.report.catalogue import Catalogue, Lang
from tilesight.report.serialize import Record
from tilesight.report.terminal_pictures import bar_lines, kernel_lines, legend, tile_lines
from tilesight.report.view import view
from tilesight.report.view_model import Cell, Fact, FindingView, ReportView, Table, TextDiff

WIDTH = 100
SHOWN_KERNELS = 3
"""Sources are printed up to this many kernels; more are left to the HTML report."""
SHOWN_ROWS = 20
SHOWN_GUARDS = 6
SHOWN_TIMES = 200
SHOWN_SHAPES = 48
"""Rows of the correctness matrix: all of those that are planned."""

STYLES = {"good": "green", "bad": "bold red", "unknown": "dim italic", "masked": "yellow", "total": "bold"}
SHOWN_DIFF_LINES = 80
DIFF_STYLES = {"added": "green", "removed": "red", "same": "", "place": "cyan"}
LEVELS = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}


def print_report(record: Record, lang: Lang = "en", console: Console | None = None) -> None:
    """Print the record's report; without a console, to standard output."""
    (console or default_console()).print(render(view(record, lang)))


def report_text(record: Record, lang: Lang = "en", width: int = WIDTH) -> str:
    """The report as plain text without colours, for `str(record)` and for tests."""
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None, highlight=False, emoji=False)
    console.print(render(view(record, lang)))
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def default_console(*, stderr: bool = False) -> Console:
    """A console on standard output that is 100 columns wide where there is no terminal to ask."""
    console = Console(stderr=stderr, highlight=False, emoji=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, emoji=False, width=WIDTH)


def render(shown: ReportView) -> RenderableType:
    """The whole report as one rich renderable."""
    words = Catalogue(shown.lang)
    head = Text.assemble((shown.title, "bold"), "  ", (shown.subtitle, "dim"))
    parts: list[RenderableType] = [head, *_body(words, shown)]
    for child in shown.children[:SHOWN_ROWS]:
        parts += [Text(), Text(child.title, "bold underline"), *_body(words, child)]
    if len(shown.children) > SHOWN_ROWS:
        parts.append(Text(words("more_rows", count=len(shown.children) - SHOWN_ROWS), "dim"))
    return Group(*parts)


def _body(words: Catalogue, shown: ReportView) -> list[RenderableType]:
    parts: list[RenderableType] = [_facts(shown.facts), _cards(shown)]
    parts += _tables(words, ("not_compiled", shown.failures))
    parts += _findings(words, shown)
    parts += _tables(words, ("numerics", shown.numerics))
    if shown.matrix:
        parts += _section(words, "matrix", *(line for each in shown.matrix for line in _matrix_lines(words, each)))
    if shown.times:
        lines = (line for each in shown.times for line in table_lines(words, each, SHOWN_TIMES))
        parts += _section(words, "times", *lines)
    for number, each in enumerate(shown.changes):
        content = table_lines(words, each, SHOWN_SHAPES)
        parts += content if number else _section(words, "changes", *content)
    if shown.source_changes:
        parts += _section(words, "source_changes", *(_text_diff(words, each) for each in shown.source_changes))
    parts += _code(words, shown)
    if shown.tiles:
        parts += _section(words, "tiles", *(line for picture in shown.tiles for line in tile_lines(picture)))
    if shown.has_ledger:
        parts += _ledger(words, shown)
    parts += _tables(words, *(("accesses", accesses) for accesses in shown.accesses))
    if shown.kernels is not None:
        parts += _section(words, "kernels", *record_lines(words, shown.kernels))
    parts += _tables(words, ("not_fused", shown.not_fused), ("breaks", shown.breaks), ("recompiles", shown.recompiles))
    if shown.guards is not None:
        parts += _section(words, "guards", *table_lines(words, shown.guards, SHOWN_GUARDS))
    if shown.compile:
        parts += _section(words, "compile", _facts(shown.compile))
    if shown.notes:
        parts += _section(words, "notes", *(Text(note) for note in shown.notes))
    return parts


def _text_diff(words: Catalogue, diff: TextDiff) -> Text:
    text = Text(f"{diff.title}\n", "bold")
    for kind, line in diff.lines[:SHOWN_DIFF_LINES]:
        text.append(f"{line}\n", DIFF_STYLES[kind])
    if len(diff.lines) > SHOWN_DIFF_LINES:
        text.append(words("more_lines", count=len(diff.lines) - SHOWN_DIFF_LINES), "dim")
    return text


def _section(words: Catalogue, key: str, *content: RenderableType) -> list[RenderableType]:
    return [Text(), Text(words(key), "bold cyan"), *(Padding(each, (0, 0, 0, 2), expand=False) for each in content)]


def _facts(facts: tuple[Fact, ...]) -> Text:
    return _packed([Text.assemble((fact.label, "dim"), " ", fact.value) for fact in facts], WIDTH)


def _cards(shown: ReportView) -> RenderableType:
    grid = RichTable.grid(padding=(0, 2))
    for card in shown.cards:
        style = STYLES.get(card.tone, "bold")
        grid.add_row(Text(card.label), Text(card.value, style), Text(card.detail, "dim"))
    return Group(Text(), Padding(grid, (0, 0, 0, 2), expand=False))


def _findings(words: Catalogue, shown: ReportView) -> list[RenderableType]:
    if not shown.findings:
        return []
    lines = [_finding(words, finding) for finding in shown.findings[:SHOWN_ROWS]]
    for line in lines[:-1] if shown.kind == "check" else ():
        line.append("\n")
    if len(shown.findings) > SHOWN_ROWS:
        lines.append(Text(words("more_rows", count=len(shown.findings) - SHOWN_ROWS), "dim"))
    return _section(words, "findings", *lines)


def _finding(words: Catalogue, finding: FindingView) -> Text:
    level = "" if finding.level == "error" else f"{words(f'level_{finding.level}')}  "
    source = f"  {finding.source}\n" if finding.source else ""
    details = "".join(f"  {line}\n" for line in (finding.lanes, finding.case) if line)
    text = Text.assemble(
        (finding.kind, LEVELS[finding.level]),
        f"  {level}{finding.short_place}  {finding.message}\n",
        (source, "cyan"),
        (details, "dim"),
        (f"  {words('hint')}  " if finding.hint else "", "bold"),
        f"{finding.hint}\n" if finding.hint else "",
        (f"  {words('page')}: {finding.more}" if finding.more else "", "dim"),
    )
    text.rstrip()
    return text


def _tables(words: Catalogue, *named: tuple[str, Table | None]) -> list[RenderableType]:
    parts: list[RenderableType] = []
    previous = ""
    for key, table in named:
        if table is not None:
            content = table_lines(words, table)
            parts += content if key == previous else _section(words, key, *content)
            previous = key
    return parts


def _matrix_lines(words: Catalogue, table: Table) -> list[RenderableType]:
    return [*table_lines(words, table, SHOWN_SHAPES), Text()]


def table_lines(words: Catalogue, table: Table, most: int = SHOWN_ROWS) -> list[RenderableType]:
    """A table without boxes, its title above and its caption below; at most so many rows."""
    grid = RichTable(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for column in table.columns:
        grid.add_column(column.label, justify="right" if column.is_number else "left", overflow="fold")
    for row in table.rows[:most]:
        grid.add_row(*map(_cell, row))
    parts: list[RenderableType] = [Text(table.title, "bold")] if table.title else []
    parts.append(grid)
    if len(table.rows) > most:
        parts.append(Text(words("more_rows", count=len(table.rows) - most), "dim"))
    if table.caption:
        parts.append(Text(table.caption, "dim italic"))
    return parts


def record_lines(words: Catalogue, table: Table) -> list[RenderableType]:
    """A wide table as one paragraph a row: the first field, then each other with its column's name."""
    parts: list[RenderableType] = []
    for row in table.rows[:SHOWN_ROWS]:
        named = [(column.label, cell) for column, cell in zip(table.columns, row, strict=True)][1:]
        fields = [Text.assemble((label, "dim"), " ", _cell(cell)) for label, cell in named if _has_figure(cell)]
        unknown = [label for label, cell in named if cell.tone == "unknown"]
        if unknown:
            missing = words("not_measured_columns", columns=words("list_separator").join(unknown))
            fields.append(Text(missing, "dim italic"))
        parts += [Text(row[0].text, "bold"), Padding(_packed(fields, WIDTH - 6), (0, 0, 0, 2), expand=False)]
    if len(table.rows) > SHOWN_ROWS:
        parts.append(Text(words("more_rows", count=len(table.rows) - SHOWN_ROWS), "dim"))
    if table.caption:
        parts.append(Text(table.caption, "dim italic"))
    return parts


def _has_figure(cell: Cell) -> bool:
    return bool(cell.text) and cell.tone != "unknown"


def _packed(fields: Sequence[Text], width: int) -> Text:
    """The fields three blanks apart, broken between fields where the next would not fit."""
    packed = Text()
    used = 0
    for field in fields:
        is_first = not packed.plain
        breaks = used + 3 + field.cell_len > width
        packed.append("" if is_first else "\n" if breaks else "   ").append_text(field)
        used = field.cell_len if is_first or breaks else used + 3 + field.cell_len
    return packed


def _cell(cell: Cell) -> Text:
    return Text(cell.text, STYLES.get(cell.tone, ""))


def _code(words: Catalogue, shown: ReportView) -> list[RenderableType]:
    if shown.code is None or not (shown.code.hand or shown.code.generated):
        return []
    sources = (*shown.code.hand, *shown.code.generated)
    if len(sources) > SHOWN_KERNELS:
        return _section(words, "code", Text(words("sources_in_html", count=len(sources)), "dim"))
    lines = [line for source in sources for line in kernel_lines(words, source)]
    return _section(words, "code", legend(words), *lines)


def _ledger(words: Catalogue, shown: ReportView) -> list[RenderableType]:
    content: list[RenderableType] = [*bar_lines(shown.bars)]
    if shown.trips is not None:
        content += [Text(words("trips"), "bold"), *table_lines(words, shown.trips)]
    elif shown.kind != "trace":
        content.append(Text(words("no_trips"), "dim"))
    return _section(words, "ledger", *content)
