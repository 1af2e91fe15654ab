"""Work in a forked child: LLVM may abort, or take hours over one kernel, and prints where nobody asked.

The child has the caller's objects as they are, so that nothing needs to be pickled on the way in.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

Work = Callable[[Callable[[], str]], Iterator[Any]]


class ChildStoppedError(Exception):
    """The child came to no end of its own.

    Args:
        reason: `timeout`, or the signal's name or exit code
        printed: what it printed until then
    """

    def __init__(self, reason: str, printed: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.printed = printed


def run_in_child(work: Work, time_limit_s: float) -> Iterator[Any]:
    """What `work` yields, as it yields it, from a child process.

    Args:
        work: a generator function; it is handed a function that reads what the child has printed so far
    Raises: ChildStoppedError: when the time is over or the child dies
    """
    receiver, sender = Pipe(duplex=False)
    with tempfile.NamedTemporaryFile(prefix="tilesight-", suffix=".log") as log, receiver:
        child = _fork()
        if child == 0:
            _serve(work, sender, log.name)
        sender.close()
        try:
            yield from _received(receiver, time.monotonic() + time_limit_s)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            child = 0
        except TimeoutError:
            raise ChildStoppedError("timeout", _read(log.name)) from None
        finally:
            if child:
                _kill(child)
        if status:
            reason = signal.Signals(-status).name if status < 0 else f"exit code {status}"
            raise ChildStoppedError(reason, _read(log.name))


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns where threads run; the child needs none of them and ends by os._exit.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _serve(work: Work, sender: Connection, log: str) -> None:
    """The child's life."""
    code = 1
    try:
        os.setsid()
        faulthandler.disable()
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        for item in work(lambda: _read(log)):
            sender.send(item)
        code = 0
    except BaseException as error:  # the parent has the caller's frames: none of them may go on here
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _received(receiver: Connection, deadline: float) -> Iterator[Any]:
    while receiver.poll(max(0.0, deadline - time.monotonic())):
        try:
            item = receiver.recv()
        except EOFError:
            return
        yield item
    raise TimeoutError


def _kill(child: int) -> None:
    """End the child and what it has started: it is a session of its own."""
    for send in (os.killpg, os.kill):
        try:
            send(child, signal.SIGKILL)
            break
        except ProcessLookupError:
            continue
    os.waitpid(child, 0)


def _read(log: str) -> str:
    return Path(log).read_text(errors="replace")
