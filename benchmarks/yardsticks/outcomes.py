"""What became of each third-party kernel on the engine: right, wrong, failed or not run, and why."""

from __future__ import annotations

import datetime
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from types import FrameType

import tilesight
from benchmarks.measure import RESULTS, describe_machine
from tilesight.capture.launches import EngineSession
from tilesight.capture.numerics import Verdict
from tilesight.engine import Execution
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Listener

LONGEST_REASON = 300


class NotRunError(Exception):
    """A case that the engine was not asked to do; its text says why."""


@dataclass(frozen=True)
class Outcome:
    """One operator in one direction and dtype.

    Args:
        case: which use of it; empty where there is one
        ok: the numbers are right; None when nothing could be compared
        max_error: the worst |output − reference| / (|reference| + rms(reference))
        launches: kernels that the engine executed
        reason: why it is not ok; empty when it is
        needs_zeros: it is right only where masked-off lanes, loaded without `other`, hold zeros
    """

    name: str
    direction: str
    dtype: str
    ok: bool | None
    max_error: float | None
    tolerance: float | None
    launches: int
    seconds: float
    reason: str = ""
    case: str = ""
    needs_zeros: bool = False


@dataclass
class LaunchCounter:
    """Counts what the engine executes."""

    launches: int = 0
    kernels: set[str] = field(default_factory=set[str])

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        self.launches += 1
        self.kernels.add(launch.kernel)
        return ()

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        return None


def start_engine() -> tuple[EngineSession, LaunchCounter]:
    """Switch the engine on and count its launches from here on."""
    session = tilesight.enable()
    counter = LaunchCounter()
    session.observers.append(counter)
    return session, counter


def attempt(
    name: str,
    direction: str,
    dtype: str,
    run: Callable[[], Verdict],
    counter: LaunchCounter,
    limit_s: float,
    before: int | None = None,
    case: str = "",
) -> Outcome:
    """Run one case within a time limit; whatever goes wrong becomes the reason.

    Args: before: the counter when the case began; a gradient may come out of the forward pass's kernels
    """
    before, started = counter.launches if before is None else before, time.perf_counter()
    verdict: Verdict | None = None
    reason, ok = "", None
    try:
        with time_limit(limit_s):
            verdict = run()
    except NotRunError as error:
        reason = f"not run: {error}"
    except Exception as error:  # a library's failure of any kind is what this table is for
        reason, ok = describe_failure(error), False
    seconds, launches = time.perf_counter() - started, counter.launches - before
    if verdict is not None:
        ok = verdict.ok
        reason = "" if verdict.ok else f"error {verdict.max_error:.2e} exceeds the tolerance {verdict.tolerance:.0e}"
        if launches == 0:
            ok, reason = None, "not run: the library launches no Triton kernel for this input"
    error_seen = None if verdict is None else verdict.max_error
    tolerance = None if verdict is None else verdict.tolerance
    return Outcome(name, direction, dtype, ok, error_seen, tolerance, launches, round(seconds, 3), reason, case)


def describe_failure(error: BaseException) -> str:
    """`KeyError: 'x'`, on one line, cut, without paths; of a chain of errors the first one."""
    while error.__cause__ is not None:
        error = error.__cause__
    return on_one_line(f"{type(error).__name__}: {error}")


def on_one_line(text: str) -> str:
    """The text cut to what a table takes, without the folders and addresses of one machine."""
    text = re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/([\w.+-]+)", r"\1", " ".join(text.split()))
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)[:LONGEST_REASON]


def attempt_with_zeros(session: EngineSession, attempts: Callable[[], Sequence[Outcome]]) -> Sequence[Outcome]:
    """The outcomes with undefined lanes poisoned; of the wrong ones, those with zeros there if these are right.

    The language leaves such lanes undefined. A kernel that reads them anyway works where the hardware
    happens to leave zeros, so its outcome is right but marked.
    """
    poisoned = attempts()
    if all(outcome.ok is not False for outcome in poisoned):
        return poisoned
    before = session.options
    session.options = replace(before, undefined=0.0)
    try:
        zeroed = attempts()
    finally:
        session.options = before
    pairs = zip(poisoned, zeroed, strict=True)
    return [
        replace(second, needs_zeros=True) if first.ok is not True and second.ok else first for first, second in pairs
    ]


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raise TimeoutError in the main thread when the body takes longer."""

    def give_up(signal_number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not finished after {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def show(outcome: Outcome) -> str:
    """One line for the terminal."""
    word = {True: "right", False: "WRONG" if outcome.max_error is not None else "FAILED", None: "not run"}[outcome.ok]
    error = "" if outcome.max_error is None else f" error {outcome.max_error:.1e}"
    place = " ".join(filter(None, (outcome.name, outcome.case, outcome.direction, outcome.dtype)))
    zeros = " (with zeros in undefined lanes)" if outcome.needs_zeros else ""
    return f"{word:8}{place}{error} {outcome.seconds:.2f} s{zeros} {outcome.reason}".rstrip()


def tally(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """How many of how many, for cases and for operators; an operator counts when all its cases are right."""
    names = list(dict.fromkeys(outcome.name for outcome in outcomes))
    run = {name: [each for each in outcomes if each.name == name and each.ok is not None] for name in names}
    complete = [name for name in names if run[name] and all(each.ok for each in run[name])]
    return {
        "cases_right": sum(outcome.ok is True for outcome in outcomes),
        "cases_right_with_zeros_only": sum(outcome.needs_zeros for outcome in outcomes),
        "cases_run": sum(outcome.ok is not None for outcome in outcomes),
        "cases": len(outcomes),
        "operators_right": len(complete),
        "operators_run": sum(bool(cases) for cases in run.values()),
        "operators": len(names),
        "reasons": dict(Counter(outcome.reason for outcome in outcomes if outcome.ok is not True).most_common()),
    }


def write_outcomes(
    name: str, arguments: Sequence[str], packages: Sequence[str], notes: Sequence[str], outcomes: Sequence[Outcome]
) -> Path:
    """Writes results/NAME.json: circumstances, versions of the packages, counts, every outcome."""
    machine = describe_machine()
    versions = machine.pop("versions")
    assert isinstance(versions, Mapping)
    record = {
        "benchmark": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", "-m", f"benchmarks.yardsticks.{name}", *arguments]),
        **machine,
        "versions": {**versions, **{package: metadata.version(package) for package in packages}},
        "notes": list(notes),
        **tally(outcomes),
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
