"""`--perfetto PATH`: the timeline as a file for ui.perfetto.dev."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tilesight.cli.deliver import deliver_json
from tilesight.errors import InputError
from tilesight.report.perfetto import perfetto_trace
from tilesight.roads.model import Observation, Observations, ScriptRun

Command = TypeVar("Command", bound=Callable[..., Any])


def perfetto_option(command: Command) -> Command:
    """`--perfetto PATH`"""
    text = "Write the timeline of the compilation, to open in ui.perfetto.dev."
    return click.option("--perfetto", metavar="PATH", help=text)(command)


def check_perfetto(path: str | None) -> None:
    """Refuse a path that can't be a file before any long work begins.

    Raises: InputError: when it names a folder
    """
    if path is not None and (path == "-" or Path(path).is_dir()):
        raise InputError(f"{path} is no file", where="--perfetto", expected="the path of a file to write")


def deliver_perfetto(record: Observation | Observations | ScriptRun, path: str | None) -> None:
    """Write the file, where one is asked for.

    Raises: InputError: when no time was heard: of saved code, which holds none
    """
    if path is None:
        return
    trace = perfetto_trace(record)
    if not trace["traceEvents"]:
        raise InputError("no timeline", where="--perfetto", expected="a compilation here, or a TORCH_TRACE log")
    deliver_json(trace, path)
    click.echo(f"tilesight: the timeline is {path}; open it in ui.perfetto.dev", err=True)
