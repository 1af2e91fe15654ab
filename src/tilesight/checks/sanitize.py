"""Everything that is wrong with one launch: listeners while it runs, inspections of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tilesight.checks.aliasing import Crossings, clashes_across_arguments, find_aliasing
from tilesight.checks.bounds import BoundsCheck
from tilesight.checks.clashes import find_overwrites, find_races
from tilesight.checks.coverage import Output, note_written
from tilesight.checks.finding import Finding
from tilesight.checks.footprint import Footprint
from tilesight.checks.grids import find_idle_programs, find_short_grids
from tilesight.checks.masks import find_wasted_masks
from tilesight.checks.memory_sums import find_sums_in_memory
from tilesight.checks.nan_origin import find_nan_origins
from tilesight.checks.overflow import OverflowCheck
from tilesight.checks.padding import find_padding
from tilesight.checks.precision import PrecisionCheck
from tilesight.checks.reach import MaskReach
from tilesight.checks.repeated_loads import find_repeated_loads
from tilesight.checks.replay import Replay
from tilesight.checks.reruns import find_autotuned_updates, find_order_dependence
from tilesight.checks.suspects import Suspects
from tilesight.checks.undefined import find_undefined
from tilesight.checks.uninitialised import find_reads_of_nothing
from tilesight.engine import ExecutionOptions, Launch, Listener
from tilesight.ir.module import Module

Variants = Callable[[], Iterable[Module]]
INSPECTIONS: tuple[Callable[[Replay], list[Finding]], ...] = (
    find_repeated_loads,
    find_order_dependence,
    find_autotuned_updates,
    find_sums_in_memory,
)


class Sanitizer:
    """Looks for every kind of fault in one launch.

    Make it before the launch runs, hand its `listeners` to the engine, ask for `findings` right afterwards.
    What nobody has written is a fault only once everything is over: keep the `outputs` for
    `coverage.find_never_written`.

    Args:
        module: the kernel's
        launch: what will run
        options: of the engine
        variants: makes the module with other compile-time integers (see `masks`); without it no mask is
            called wasted
    """

    def __init__(
        self, module: Module, launch: Launch, options: ExecutionOptions, variants: Variants | None = None
    ) -> None:
        self._replay = Replay.of(module, launch, options)
        self._variants = variants
        self._bounds = BoundsCheck()
        self._overflow = OverflowCheck()
        self._footprint = Footprint(module, launch)
        self._crossings = Crossings(module, launch)
        self._reach = MaskReach(module)
        self._suspects = Suspects(module)
        self._precision = PrecisionCheck(self._replay)
        self.outputs: list[Output] = []

    @property
    def listeners(self) -> Sequence[Listener]:
        """What listens while the launch runs."""
        heard = self._bounds, self._overflow, self._footprint, self._crossings, self._reach, self._suspects
        return (*heard, *self._precision.listeners)

    def findings_so_far(self) -> list[Finding]:
        """What was heard of a launch that stopped half-way, and so can't be run again: lanes out of bounds."""
        return self._bounds.findings()

    def findings(self) -> list[Finding]:
        """What was found, in the order of lines; call it once, when the launch is over."""
        replay, footprint = self._replay, self._footprint
        module, launch = replay.module, replay.launch
        found = find_reads_of_nothing(replay, footprint)
        self.outputs = note_written(footprint, self._reach, replay)
        found += self._overflow.findings(replay)
        found += [each for each in self._bounds.findings() if not self._overflow.explains(each)]
        aliased = clashes_across_arguments(footprint, module, launch)
        found += find_races(footprint, module, launch, aliased)
        found += find_aliasing(replay, self._crossings, aliased)
        found += find_overwrites(footprint, module, launch)
        found += find_short_grids(footprint, self._reach, module, launch)
        is_done = not any(len(output.missing()) for output in self.outputs)
        found += find_idle_programs(footprint, module, launch, is_done=is_done)
        for inspect in (find_undefined, find_nan_origins, find_padding):
            found += inspect(replay, self._suspects)
        found += self._precision.findings()
        for inspect in INSPECTIONS:
            found += inspect(replay)
        if self._variants is not None:
            found += find_wasted_masks(module, launch, self._variants)
        return sorted(found, key=lambda finding: (finding.file, finding.line, finding.kind))
