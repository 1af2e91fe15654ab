"""A process that compiles functions of the corpus, one at a time, and may die without harm.

Spoken over its standard streams: a name a line in, an Outcome as a JSON line out; an empty line asks for the names.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from types import TracebackType
from typing import IO, Any

from tests.gpu.generated import Outcome

SECONDS = 200.0
"""The longest that one function may take."""


class Worker:
    """A `python -m tests.gpu.workers SIDE` that is started when it is needed, and again after it has died."""

    def __init__(self, side: str, environment: dict[str, str]) -> None:
        self._side = side
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def names(self) -> list[str]:
        """The names of the corpus."""
        answer = self._ask("", SECONDS)
        if answer is None:
            raise RuntimeError("the corpus cannot be imported: see the worker's message above")
        return answer["names"]

    def compile(self, name: str, seconds: float) -> Outcome:
        """What the function became in at most that time; where the process died or was late, that it did."""
        if seconds <= 0:
            return Outcome(error="left out: the time was up")
        limit = min(SECONDS, seconds)
        answer = self._ask(name, limit)
        if answer is None:
            self._end()
            return Outcome(error=f"the process died, or took more than {limit:.0f} s")
        return Outcome.from_dict(answer)

    def _ask(self, name: str, seconds: float) -> dict[str, Any] | None:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(name + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except (queue.Empty, BrokenPipeError):
            return None
        return json.loads(line) if line else None

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.gpu.workers", self._side]
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, env=self._environment, text=True, **streams)
        self._process, self._lines = process, queue.Queue()
        threading.Thread(target=_pump, args=(process.stdout, self._lines), daemon=True).start()
        return process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _pump(stream: IO[str], lines: queue.Queue[str]) -> None:
    """Each line, and an empty one at the end."""
    for line in stream:
        lines.put(line)
    lines.put("")


def _serve(side: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a compiler prints must not stand among the answers
    from tests.gpu.functions.catalogue import catalogue
    from tests.gpu.generated import compile_sample

    samples = catalogue()
    for line in sys.stdin:
        name = line.rstrip("\n")
        answer = compile_sample(samples[name], side).to_dict() if name else {"names": list(samples)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
