"""`--export DIR`: each generated kernel written as a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tilesight.checks.wording import counted
from tilesight.errors import InputError
from tilesight.report.write import write_text_atomically
from tilesight.roads.model import Exported, Observation, Observations

Command = TypeVar("Command", bound=Callable[..., Any])
EXPECTED = "a folder for the files"


def export_option(command: Command) -> Command:
    """`--export DIR`"""
    text = "Write each generated kernel there as a file that runs, checks and times itself."
    return click.option("--export", metavar="DIR", help=text)(command)


def check_folder(folder: str | None) -> None:
    """Refuse a path that is no folder before any long work begins.

    Raises: InputError: when the path is that of a file
    """
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise InputError(f"{folder} is a file", where="--export", expected=EXPECTED)


def exported(seen: Any, folder: str | None) -> Any:
    """What was observed, with its kernels written to the folder; as it is where none is given.

    Raises: InputError: when a file of that name is there and says something else: it may be someone's work
    """
    if folder is None:
        return seen
    from tilesight.roads.export import with_exports

    seen = with_exports(seen)
    regions: tuple[Observation, ...] = seen.regions if isinstance(seen, Observations) else (seen,)
    files = [each for region in regions for each in region.exported if each.file]
    for each in files:
        _check_free(Path(folder) / each.file, each)
    for each in files:
        write_text_atomically(Path(folder) / each.file, each.text)
    click.echo(f"tilesight: {counted(len(files), 'kernel')} in {folder}; run one with: python {folder}/FILE", err=True)
    return seen


def _check_free(path: Path, file: Exported) -> None:
    if path.exists() and path.read_text(encoding="utf-8", errors="replace") != file.text:
        raise InputError(
            f"{path} is there and says something else",
            where="--export",
            expected="another folder, or the file moved away",
            next_step="nothing was written",
        )
