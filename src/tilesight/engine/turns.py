"""Programs that wait for each other: one runs at a time, and hands over when it waits in vain.

A program whose loop of atomics goes round without changing memory lets the next one go on; a new
program starts when all that have started wait. When none is left to start and no loop of those
that wait can change, it is a deadlock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilesight.engine.registry import where_of
from tilesight.engine.values import Descriptor, Pointer, spread_integers
from tilesight.engine.writes import Writes
from tilesight.errors import ExecutionError
from tilesight.ir.module import Operation

RunProgram = Callable[[int], None]

SHOWN_PROGRAMS = 8

ROUNDS_IN_A_ROW = 256
"""Rounds of a loop that changes memory before another program has its turn all the same."""


class _Abandoned(BaseException):
    """Unwinds the thread of a program that nobody will resume."""


@dataclass(eq=False)
class _Worker:
    """A thread that runs programs, and what its program waits for.

    It is idle when its loop went round without changing memory, and stuck when the next round cannot
    differ: neither memory nor what the loop carries has changed.
    """

    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    program: int = -1
    loop: Operation | None = None
    carried: tuple[bytes, ...] = ()
    rounds: int = 0
    is_idle: bool = False
    is_stuck: bool = False


class Turns:
    """Runs programs by turns, in a thread each once they wait.

    Args:
        programs: linear ids, in the order in which they start
        run: runs one program to its end; its loops call `wait`
        writes: of all programs; tells whether memory has changed
        spin_limit: rounds after which a loop that counts while it waits is taken to be stuck
    """

    def __init__(self, programs: Sequence[int], run: RunProgram, writes: Writes, spin_limit: int) -> None:
        self._unstarted: Iterator[int] = iter(programs)
        self._left = len(programs)
        self._run = run
        self._writes = writes
        self._spin_limit = spin_limit
        self._current: _Worker | None = None
        self._queue: deque[_Worker] = deque()
        self._threads: list[threading.Thread] = []
        self._done = threading.Semaphore(0)
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run every program to its end.

        Raises: ExecutionError: the programs that are left wait for each other
        """
        self._start_worker()
        self._done.acquire()
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error

    def wait(self, loop: Operation, carried: Sequence[Any]) -> None:
        """Called by the running program after a round of a loop that may wait for others.

        Args:
            carried: what the loop carries into its next round
        """
        me = self._current
        assert me is not None
        me.rounds = me.rounds + 1 if me.loop is loop else 1
        state = tuple(bytes_of(value) for value in carried)
        is_same = me.loop is loop and me.carried == state
        me.loop, me.carried = loop, state
        if self._writes.changed:
            self._note_progress()
            if me.rounds % ROUNDS_IN_A_ROW:
                return
            me.is_idle = me.is_stuck = False
        else:
            me.is_idle, me.is_stuck = True, is_same or me.rounds > self._spin_limit
        self._queue.append(me)
        self._hand_over()
        me.turn.acquire()
        if self._error is not None:
            raise _Abandoned

    def _note_progress(self) -> None:
        """Memory has changed: whoever waits may go on."""
        self._writes.changed = False
        for worker in self._queue:
            worker.is_idle = worker.is_stuck = False

    def _hand_over(self) -> None:
        """Let the next program go on: a new one if all that started are idle, else the one that waited longest."""
        if self._left and all(worker.is_idle for worker in self._queue):
            self._start_worker()
            return
        if all(worker.is_stuck for worker in self._queue):
            self._fail(self._deadlock())
            return
        worker = self._queue.popleft()
        self._current = worker
        worker.turn.release()

    def _start_worker(self) -> None:
        worker = _Worker()
        thread = threading.Thread(target=self._work, args=(worker,), daemon=True)
        self._threads.append(thread)
        self._current = worker
        worker.turn.release()
        thread.start()

    def _work(self, worker: _Worker) -> None:
        """Run programs that nobody has started yet, one after another."""
        worker.turn.acquire()
        try:
            with np.errstate(all="ignore"):
                while self._left:
                    self._left -= 1
                    worker.program, worker.loop = next(self._unstarted), None
                    self._run(worker.program)
                    self._note_progress()
        except _Abandoned:
            return
        except BaseException as error:  # any failure ends all programs; `run` raises it
            self._fail(error)
            return
        if self._queue:
            self._hand_over()
        else:
            self._done.release()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        waiting, self._queue = list(self._queue), deque()
        for worker in waiting:
            worker.turn.release()
        self._done.release()

    def _deadlock(self) -> ExecutionError:
        lines: dict[str, list[int]] = {}
        for worker in self._queue:
            assert worker.loop is not None
            lines.setdefault(where_of(worker.loop), []).append(worker.program)
        waiting = "; ".join(f"{where}: {_listed(programs)}" for where, programs in lines.items())
        return ExecutionError(
            f"deadlock: every program that has not ended waits in a loop ({waiting})",
            where=next(iter(lines)),
            expected="an atomic or a store of another program that lets one of them go on",
            next_step="look for a lock that is not released, or a flag that no program sets",
        )


def _listed(programs: list[int]) -> str:
    ordered = sorted(programs)
    word = "program" if len(ordered) == 1 else "programs"
    if ordered == list(range(ordered[0], ordered[0] + len(ordered))) and len(ordered) > 2:
        return f"{word} {ordered[0]} to {ordered[-1]}"
    shown = ", ".join(map(str, ordered[:SHOWN_PROGRAMS]))
    return f"{word} {shown}" + (f" and {len(ordered) - SHOWN_PROGRAMS} more" if len(ordered) > SHOWN_PROGRAMS else "")


def bytes_of(value: Any) -> bytes:
    """A carried value as bytes, to be compared."""
    if isinstance(value, Descriptor):
        return bytes_of(value.base)
    return bytes(spread_integers(value.address if isinstance(value, Pointer) else value).tobytes())
