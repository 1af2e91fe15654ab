"""What is unlaunchable in what a function launches on the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesight.capture.launches import EngineSession
from tilesight.checks.finding import Finding
from tilesight.engine import Execution, Launch, Listener
from tilesight.errors import InputError
from tilesight.roads.unlaunchable import find_unlaunchable, finding_of_compile_error
from tilesight.targets import target as find_target


class LimitObserver:
    """Asks of every launch of a session whether a GPU takes it."""

    def __init__(self, session: EngineSession, target: str, **options: Any) -> None:
        self.findings: list[Finding] = []
        self.launches: list[Launch] = []
        self._session, self._target, self._options = session, find_target(target), options

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        self.launches.append(launch)
        compiled = self._session.compiled_from(launch)
        self.findings += find_unlaunchable(launch, *compiled, self._target, **self._options)
        return ()

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        return None


def findings_of(function: Callable[[], Any], target: str = "h200", **options: Any) -> list[Finding]:
    """The findings of a function's launches, and of the compile error that one of them raised.

    Raises: what the function raises, unless it is about compiling, or follows from a finding
    """
    arch = find_target(target).arch
    session = EngineSession(arch if isinstance(arch, int) else 90)
    observer = LimitObserver(session, target, **options)
    session.observers.append(observer)
    with session:
        try:
            function()
        except InputError:
            if not observer.findings:
                raise
        except Exception as error:
            found = finding_of_compile_error(error, find_target(target))
            if found is None and not observer.findings:
                raise
            observer.findings += [found] if found is not None else []
    return observer.findings
