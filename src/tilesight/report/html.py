"""One self-contained HTML file, or a fragment of one for notebooks: no network, no scripts."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tilesight import __version__
from tilesight.report.catalogue import Catalogue, Lang
from tilesight.report.highlight import highlighted_lines
from tilesight.report.serialize import Record
from tilesight.report.view import view
from tilesight.report.view_model import Source, SourceLine
from tilesight.report.write import write_text_atomically


def page(record: Record, lang: Lang = "en") -> str:
    """The record's report as a whole HTML document, style and pictures inlined."""
    return _render("page.html.j2", record, lang)


def fragment(record: Record, lang: Lang = "en") -> str:
    """The record's report as one `<div>`, for a notebook's `_repr_html_`."""
    return _render("fragment.html.j2", record, lang)


def write_html(record: Record, path: str | Path, lang: Lang = "en") -> Path:
    """The path of the written report; it is whole or not there.

    Raises: OSError: when the file can't be written
    """
    return write_text_atomically(path, page(record, lang))


def _render(template: str, record: Record, lang: Lang) -> str:
    words = Catalogue(lang)
    shown = view(record, lang)
    return (
        _environment()
        .get_template(template)
        .render(view=shown, words=words, version=__version__, coloured=coloured, backticks=backticks)
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("tilesight.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def coloured(source: Source) -> list[tuple[SourceLine, Markup]]:
    """Each line of a source with its coloured text."""
    markup = highlighted_lines("\n".join(line.text for line in source.lines))
    return list(zip(source.lines, markup, strict=True))


def backticks(text: str) -> Markup:
    """The text escaped, with what stands between backticks set as code."""
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else piece for number, piece in enumerate(pieces)
    )
