"""`tilesight check --explain KIND`: the page about a kind of finding."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import click

from tilesight.checks.finding import page_of
from tilesight.checks.kinds import KINDS
from tilesight.cli.edge import failures_in_one_line
from tilesight.errors import InputError


def explain_option(command: Any) -> Any:
    """`--explain KIND`: prints the page and ends the command, whatever else stands on the line."""
    return click.option(
        "--explain",
        metavar="KIND",
        is_eager=True,
        expose_value=False,
        callback=_explain,
        help="Print the page about a kind of finding, such as race, and exit.",
    )(command)


def page_text(kind: str) -> str:
    """The Markdown of the page about a kind of finding.

    Raises:  InputError: when no kind has that name
    """
    if kind not in KINDS:
        raise InputError(f"{kind!r}", where="--explain", expected=f"one of {', '.join(KINDS)}")
    return files("tilesight").joinpath(page_of(kind)).read_text(encoding="utf-8")


def _explain(context: click.Context, _: click.Parameter, kind: str | None) -> None:
    if kind is None or context.resilient_parsing:
        return
    with failures_in_one_line(debug=False):
        _print(page_text(kind))
    context.exit()


def _print(text: str) -> None:
    """Set on a terminal; the Markdown as it is in a pipe."""
    from tilesight.report.terminal import default_console

    console = default_console()
    if not console.is_terminal:
        click.echo(text, nl=False)
        return
    from rich.markdown import Markdown

    console.print(Markdown(text))
