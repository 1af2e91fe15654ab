"""Everything that is wrong with one launch: listeners while it runs, inspections of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilesight.checks.bounds import BoundsCheck
from tilesight.checks.finding import Finding
from tilesight.checks.replay import Replay
from tilesight.engine import ExecutionOptions, Launch, Listener
from tilesight.ir.module import Module

Inspection = Callable[[Replay], list[Finding]]


class Sanitizer:
    """Looks for every kind of fault in one launch.

    Make it before the launch runs, hand its `listeners` to the engine, ask for `findings` afterwards.

    Args:
        module: the kernel's
        launch: what will run
        options: of the engine
    """

    def __init__(self, module: Module, launch: Launch, options: ExecutionOptions) -> None:
        self._replay = Replay.of(module, launch, options)
        self._bounds = BoundsCheck()
        self._inspections: tuple[Inspection, ...] = ()

    @property
    def listeners(self) -> Sequence[Listener]:
        """What listens while the launch runs."""
        return (self._bounds,)

    def findings(self) -> list[Finding]:
        """What was found, in the order of lines; call it once, when the launch is over."""
        found = self._bounds.findings()
        for inspect in self._inspections:
            found += inspect(self._replay)
        return sorted(found, key=lambda finding: (finding.file, finding.line, finding.kind))
