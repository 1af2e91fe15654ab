"""The options that every command shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from tilesight.errors import InputError
from tilesight.report.catalogue import Lang, default_lang

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Outputs:
    """Where a command's result goes.

    Args:
        json: a path, `-` for standard output, or None
        html: a path or None
        lang: language of the report
        debug: show tracebacks
    """

    json: str | None
    html: str | None
    lang: Lang
    debug: bool

    @property
    def json_only(self) -> bool:
        """Standard output carries JSON and nothing else."""
        return self.json == "-"

    def check(self) -> None:
        """Refuse paths that can't be files before any long work begins.

        Raises: InputError: when a path names a folder
        """
        for option, path in (("--json", self.json), ("--html", self.html)):
            if path and path != "-" and Path(path).is_dir():
                raise InputError(f"{path} is a folder", where=option, expected="the path of a file to write")
        if self.html == "-":
            raise InputError("-", where="--html", expected="the path of a file to write")


def json_option(command: Command) -> Command:
    """`--json PATH|-`"""
    return click.option("--json", "json_path", metavar="PATH|-", help="Write the data as JSON; - for stdout.")(command)


def debug_option(command: Command) -> Command:
    """`--debug`"""
    return click.option("--debug", is_flag=True, help="Show the traceback of a failure.")(command)


def target_option(command: Command) -> Command:
    """`--target GPU`"""
    text = "The GPU to compile for; it need not be here. Of observe also cpu or gpu: what is here."
    return click.option("--target", default="h200", show_default=True, metavar="GPU", help=text)(command)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json`, `--html`, `--lang` and `--debug`; the command gets them as one `outputs`."""

    @wraps(command)
    def with_outputs(
        *args: Any, json_path: str | None, html_path: str | None, lang: Lang | None, debug: bool, **options: Any
    ) -> Any:
        return command(*args, outputs=Outputs(json_path, html_path, lang or default_lang(), debug), **options)

    lang_help = "Language of the report; from the locale when not given."
    wrapped = debug_option(with_outputs)
    wrapped = click.option("--lang", type=click.Choice(["en", "zh"]), help=lang_help)(wrapped)
    wrapped = click.option("--html", "html_path", metavar="PATH", help="Write one self-contained HTML file.")(wrapped)
    return json_option(wrapped)
