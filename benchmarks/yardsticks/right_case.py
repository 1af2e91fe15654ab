"""One case of somebody else's library under the sanitizer: what was launched, what was found, how long it took."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.yardsticks.outcomes import describe_failure, time_limit
from tilesight.capture.launches import EngineSession, installed_session
from tilesight.capture.provenance import Provenance
from tilesight.checks.finding import Finding
from tilesight.engine import Execution
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Listener
from tilesight.roads.check_launches import CheckObserver
from tilesight.targets import Target
from tilesight.targets import target as find_target

USUAL_GPU = "h200"
UNKNOWN_KERNEL = "(all launches)"


@dataclass(frozen=True)
class RightCase:
    """One use of a library.

    Args:
        run: makes its inputs, launches, and returns what it gave its caller
        gpu: the one that the kernel is written for
    """

    name: str
    run: Callable[[], Any]
    gpu: str = USUAL_GPU


@dataclass
class LaunchClock:
    """The seconds of each kernel's launches on the engine, with nobody listening."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    _started: float = 0.0

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        self._started = time.perf_counter()
        return ()

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        self.seconds[launch.kernel] += time.perf_counter() - self._started


@dataclass
class CheckedClock:
    """A sanitizer around every launch: findings by kernel, and its seconds.

    Args:
        compiler_s: what asking the target's compiler took, by kernel
        seconds: the launch with its listeners, and the inspections after it
    """

    checks: CheckObserver
    launches: int = 0
    found: list[tuple[str, Finding]] = field(default_factory=list[tuple[str, Finding]])
    compiler_s: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    running: str = ""
    _started: float = 0.0

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        self.launches += 1
        self.running = launch.kernel
        # A launcher that traces or compares runs its launches in a session of its own, inside the given one.
        self.checks.session = installed_session() or self.checks.session
        before = time.perf_counter()
        listeners = self.checks.launch_begins(launch)
        self._started = time.perf_counter()
        self.compiler_s[launch.kernel] += self._started - before
        return listeners

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        self.checks.launch_ends(launch, execution, listeners)
        self.seconds[launch.kernel] += time.perf_counter() - self._started
        self.keep(launch.kernel)
        self.running = ""

    def keep(self, kernel: str) -> None:
        """Take over what the observer has found since the last time."""
        self.found += [(kernel, each) for each in self.checks.findings[len(self.found) :]]


def check_right_case(case: RightCase, session: EngineSession, limit_s: float) -> dict[str, Any]:
    """The record of a case: run once by the engine alone, then once more under the sanitizer.

    Args: session: for the usual GPU, and installed; a case for another one gets a session of its own
    Returns: `case`, `ending` ("ended", "failed" or "not finished"), `error`, `launches`, `kernels` {name: {`plain_s`,
        `checked_s`, `compiler_s`}}, `findings`
    """
    target = find_target(case.gpu)
    if case.gpu != USUAL_GPU:
        with EngineSession(int(target.arch), is_pinned=True) as own:
            return _record(case, own, target, limit_s)
    return _record(case, session, target, limit_s)


def _record(case: RightCase, session: EngineSession, target: Target, limit_s: float) -> dict[str, Any]:
    plain, checked = LaunchClock(), CheckedClock(CheckObserver(session, target))
    ending, error = _attempt(case, session, plain, limit_s)
    if ending == "ended":
        ending, error = _attempt(case, session, checked, limit_s)
    return {
        "case": case.name,
        "ending": ending,
        "error": error,
        "launches": checked.launches,
        "kernels": {
            kernel: {
                "plain_s": round(plain.seconds[kernel], 4),
                "checked_s": round(checked.seconds[kernel], 4),
                "compiler_s": round(compiler_s, 4),
            }
            for kernel, compiler_s in checked.compiler_s.items()
        },
        "findings": [_told(kernel, finding) for kernel, finding in checked.found],
    }


def _attempt(
    case: RightCase, session: EngineSession, clock: LaunchClock | CheckedClock, limit_s: float
) -> tuple[str, str]:
    """How a run ended, with the reason where it did not get to its end."""
    session.observers[:] = [clock]
    try:
        with time_limit(limit_s):
            if isinstance(clock, CheckedClock):
                with Provenance():
                    returned = case.run()
                clock.checks.finish(returned)
                clock.keep(UNKNOWN_KERNEL)
            else:
                case.run()
    except TimeoutError as error:
        running = clock.running if isinstance(clock, CheckedClock) else ""
        return "not finished", f"{error}{f', in {running} under the sanitizer' if running else ''}"
    except Exception as error:  # whatever a library's launcher raises is told in the table
        return "failed", describe_failure(error)
    finally:
        session.observers.clear()
    return "ended", ""


def _told(kernel: str, finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "level": finding.level,
        "kernel": kernel,
        "file": finding.file,
        "line": finding.line,
        "tensor": finding.tensor,
        "message": finding.message,
        "hint": finding.hint,
    }
