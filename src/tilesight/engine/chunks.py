"""Runs the chunks of a grid: one after another, or several at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.writes import Writes

Programs = NDArray[np.int64]
RunChunk = Callable[[Programs, Writes], None]


def split_programs(programs: Programs, size: int) -> list[Programs]:
    """The programs in runs of `size`."""
    return [programs[first : first + size] for first in range(0, len(programs), size)]


def run_one_by_one(chunks: Sequence[Programs], run: RunChunk, most_held_bytes: int) -> None:
    """Run each chunk after the one before it."""
    with np.errstate(all="ignore"):
        for programs in chunks:
            writes = Writes(most_held_bytes=most_held_bytes)
            run(programs, writes)
            writes.finish()


def run_at_once(chunks: Sequence[Programs], run: RunChunk, threads: int) -> None:
    """Run chunks in several threads; what they write reaches memory in the order of chunks.

    Raises: what the first chunk that failed raised; no later chunk has written then
    """
    turnstile = _Turnstile()
    queue = _Queue(chunks)
    workers = [threading.Thread(target=_work, args=(queue, run, turnstile), daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if turnstile.error is not None:
        raise turnstile.error


@dataclass
class _Queue:
    """The chunks that no thread has taken yet."""

    chunks: Sequence[Programs]
    taken: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def take(self) -> int | None:
        with self.lock:
            if self.taken == len(self.chunks):
                return None
            self.taken += 1
            return self.taken - 1


@dataclass
class _Turnstile:
    """Lets chunks through in their order, and none after one that failed."""

    next: int = 0
    error: BaseException | None = None
    condition: threading.Condition = field(default_factory=threading.Condition)

    def enter(self, chunk: int) -> bool:
        """Wait until it is this chunk's turn; False when an earlier one has failed."""
        with self.condition:
            self.condition.wait_for(lambda: self.next == chunk or self.error is not None)
            return self.error is None

    def leave(self, error: BaseException | None = None) -> None:
        with self.condition:
            self.next += 1
            self.error = error
            self.condition.notify_all()


def _work(queue: _Queue, run: RunChunk, turnstile: _Turnstile) -> None:
    with np.errstate(all="ignore"):
        while turnstile.error is None and (chunk := queue.take()) is not None:
            writes = Writes(holds_stores=True)
            failure: BaseException | None = None
            try:
                run(queue.chunks[chunk], writes)
            except BaseException as error:  # raised again by `run_at_once`, once earlier chunks are through
                failure = error
            if not turnstile.enter(chunk):
                return
            try:
                writes.finish() if failure is None else None
            except BaseException as error:  # the same
                failure = error
            turnstile.leave(failure)
