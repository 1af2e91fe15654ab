"""The command line's edge: every failure becomes one line on stderr and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click

from tilesight.errors import TilesightError

EXIT_FINDINGS = 1
EXIT_BAD_INPUT = 2
EXIT_INTERNAL = 3
EXIT_INTERRUPTED = 130


def complain(message: str) -> None:
    """`tilesight: <message>` as one line on stderr."""
    click.echo(f"tilesight: {' '.join(message.split())}", err=True)


@contextmanager
def failures_in_one_line(*, debug: bool, spec: str = "") -> Generator[None]:
    """While it lasts, a failure is told in one line and ends the command.

    Exit code 2 for what the user gave (a TilesightError, or an exception raised through the user's
    own file), 3 for a fault of Tilesight's own.

    Args:
        debug: print the traceback before the line
        spec: FILE.py or FILE.py:NAME, to tell the user's frames by
    """
    try:
        yield
    except click.exceptions.Exit:
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        line, code = describe_failure(error, spec)
        complain(line)
        raise click.exceptions.Exit(code) from error


def describe_failure(error: Exception, spec: str) -> tuple[str, int]:
    """(one line, exit code) for an exception that ends a command."""
    if isinstance(error, TilesightError):
        return str(error), error.exit_code
    advice = "run again with --debug for the traceback"
    name = type(error).__name__
    what = f"{name}: {error}" if str(error) else name
    place = _place_in(error, _file_of(spec))
    if place:
        return f"{place}: {what}; {advice}", EXIT_BAD_INPUT
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}; expected a path that can be read or written", EXIT_BAD_INPUT
    return f"internal error: {what}; {advice}", EXIT_INTERNAL


def _file_of(spec: str) -> Path | None:
    """The file that a spec names, or that of the module it names, once that is loaded."""
    file, found, _ = spec.partition(".py")
    if found:
        return Path(file + found).resolve()
    module = sys.modules.get(spec.partition(":")[0])
    origin = getattr(module, "__file__", None)
    return Path(origin).resolve() if origin else None


def _place_in(error: BaseException, file: Path | None) -> str:
    """`file:line` of the deepest frame in the user's file; empty when none is there."""
    if file is None:
        return ""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).resolve() == file:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == file]
    return f"{file.name}:{lines[-1]}" if lines else ""
