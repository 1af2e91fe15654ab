"""Work in a child process: what it yields comes back, and nothing it does harms the caller."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilesight.lowering.child import ChildStoppedError, run_in_child

Read = Callable[[], str]


def test_what_is_yielded_comes_back_in_order() -> None:
    text = "x" * 3_000_000

    def work(read: Read) -> Iterator[object]:
        yield 1
        yield os.getpid()
        yield text

    one, child, long = run_in_child(work, 30)
    assert (one, long) == (1, text) and child != os.getpid()
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


def test_what_is_printed_stays_in_the_child(capfd: pytest.CaptureFixture[str]) -> None:
    def work(read: Read) -> Iterator[str]:
        print("from Python")
        print("an error", file=sys.stderr)
        os.write(2, b"from C\n")
        yield read()

    assert list(run_in_child(work, 30)) == ["from Python\nan error\nfrom C\n"]
    assert capfd.readouterr() == ("", "")


def test_an_abort_is_told_with_its_last_words() -> None:
    def work(read: Read) -> Iterator[int]:
        yield 1
        os.write(2, b"LLVM ERROR: Cannot select\n")
        os.abort()

    found: list[int] = []
    with pytest.raises(ChildStoppedError) as caught:
        found.extend(run_in_child(work, 30))
    assert (caught.value.reason, caught.value.printed) == ("SIGABRT", "LLVM ERROR: Cannot select\n")


def test_an_exception_ends_the_child_alone() -> None:
    def work(read: Read) -> Iterator[int]:
        yield 1
        raise ZeroDivisionError("by zero")

    with pytest.raises(ChildStoppedError) as caught:
        list(run_in_child(work, 30))
    assert (caught.value.reason, caught.value.printed) == ("exit code 1", "ZeroDivisionError: by zero\n")


def test_the_time_limit_holds_for_what_the_child_has_started() -> None:
    def work(read: Read) -> Iterator[int]:
        with subprocess.Popen(["sleep", "60"]) as process:
            yield process.pid

    items, start = run_in_child(work, 1), time.monotonic()
    sleeper = next(items)
    with pytest.raises(ChildStoppedError, match="timeout"):
        next(items)
    assert time.monotonic() - start < 20
    state = Path(f"/proc/{sleeper}/stat")
    # Whoever adopts the orphan may take a moment to bury it.
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_caller_that_stops_listening_ends_the_child() -> None:
    def work(read: Read) -> Iterator[int]:
        yield os.getpid()
        time.sleep(60)

    items = run_in_child(work, 30)
    child = next(items)
    del items
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
