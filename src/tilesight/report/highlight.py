"""Python source coloured for HTML, line by line."""

from __future__ import annotations

from functools import cache

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]

CLASS_PREFIX = "ts-"


def highlighted_lines(text: str) -> tuple[Markup, ...]:
    """One piece of markup for each line of the text; spans never cross lines, everything is escaped."""
    if not text:
        return ()
    lexer, formatter = _tools()
    markup = highlight(text, lexer, formatter).removesuffix("\n")
    return tuple(Markup(line) for line in markup.split("\n"))


@cache
def _tools() -> tuple[Lexer, HtmlFormatter[str]]:
    return get_lexer_by_name("python", stripnl=False, ensurenl=True), HtmlFormatter[str](
        nowrap=True, classprefix=CLASS_PREFIX
    )
