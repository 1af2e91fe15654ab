"""A spinner while a command works: on a terminal only, and on stderr, so that pipes stay clean."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner


@contextmanager
def working(what: str) -> Generator[None]:
    """While it lasts, a terminal shows `what` with a spinner; user code's prints are left alone."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    spinner = Spinner("dots", text=what)
    with Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
        yield


@contextmanager
def counting(what: str) -> Generator[Callable[[str], None]]:
    """While it lasts, a terminal shows what is told to the function that it gives: a step, or `3 of 7: step`.

    A text that begins with how many of how many moves a bar.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _say_nothing
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task(what, total=None)

        def show(text: str) -> None:
            counted = _COUNTED.match(text)
            done, total = (int(counted[1]) - 1, int(counted[2])) if counted else (0, None)
            progress.update(task, description=f"{what}: {text}", completed=done, total=total)

        yield show


_COUNTED = re.compile(r"(\d+) of (\d+)")


def _say_nothing(_: str) -> None:
    """In a pipe nothing is shown."""
