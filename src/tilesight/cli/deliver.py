"""Bring a result to where it was asked for: the terminal, a JSON file or stdout, an HTML file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout

import click

from tilesight.cli.options import Outputs
from tilesight.report.serialize import Json, Record, to_dict, traces_to_dict
from tilesight.report.write import write_text_atomically
from tilesight.roads.model import ScriptRun, Trace


def deliver(record: Record, outputs: Outputs) -> None:
    """Print the record's report, and write the files that were asked for.

    Raises: OSError: when a file can't be written
    """
    deliver_json(to_dict(record), outputs.json)
    _deliver_report(record, outputs)


def deliver_traces(traces: Sequence[Trace], outputs: Outputs, spec: str) -> None:
    """As `deliver`, for the launches of one trace."""
    deliver_json(traces_to_dict(traces), outputs.json)
    record = traces[0] if len(traces) == 1 else ScriptRun(spec, 0, tuple(traces), ())
    _deliver_report(record, outputs)


def deliver_json(data: Json, path: str | None) -> None:
    """The data as JSON to a file, to stdout for `-`, nowhere for None."""
    if path is None:
        return
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if path == "-":
        click.echo(text, nl=False)
    else:
        write_text_atomically(path, text)


def _deliver_report(record: Record, outputs: Outputs) -> None:
    if not outputs.json_only:
        from tilesight.report.terminal import print_report

        print_report(record, outputs.lang)
    if outputs.html:
        from tilesight.report.html import write_html

        path = write_html(record, outputs.html, outputs.lang)
        click.echo(f"tilesight: the report is {path}", err=True)


@contextmanager
def stdout_kept_for_json(outputs: Outputs) -> Generator[None]:
    """While it lasts and stdout is kept for JSON, what user code prints goes to stderr.

    That holds for Python's prints and for the process's own file descriptor, so for libraries and
    child processes too.
    """
    if not outputs.json_only:
        yield
        return
    sys.stdout.flush()
    with redirect_stdout(sys.stderr), _descriptor_1_is_2():
        yield


@contextmanager
def _descriptor_1_is_2() -> Generator[None]:
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
