"""A spinner while a command works: on a terminal only, and on stderr, so that pipes stay clean."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
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
