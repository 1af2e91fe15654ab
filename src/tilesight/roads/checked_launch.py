"""One launch under the sanitizer, on a GPU that need not be here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tilesight.capture.launches import EngineSession, installed_session
from tilesight.checks.coverage import Output
from tilesight.checks.descriptors import FIRST_ARCH, DescriptorRules
from tilesight.checks.finding import Finding
from tilesight.checks.sanitize import Sanitizer
from tilesight.checks.wording import with_coordinates
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Listener
from tilesight.roads.unlaunchable import find_unlaunchable
from tilesight.targets import Target


class CheckedLaunch:
    """What is wrong with a launch: what a GPU would refuse of it, and what the sanitizer sees while it runs.

    Make it before the launch runs, hand its `listeners` to the engine, ask for `findings` right afterwards and
    only then for `outputs`. A launch that raises has `findings_so_far` instead.

    Args:
        session: the one that listens; a script's own `tilesight.trace` runs launches in a session inside it
        target: the GPU that is asked whether it takes it
    """

    def __init__(self, session: EngineSession, launch: Launch, target: Target) -> None:
        session = installed_session() or session
        self._refused = find_unlaunchable(launch, *session.compiled_from(launch), target)
        variants = partial(session.variants, launch)
        self._sanitizer = Sanitizer(session.module(launch.ttir), launch, session.options, variants)
        self._launch = launch
        self._descriptors = DescriptorRules()
        self._follows_descriptors = isinstance(target.arch, int) and target.arch >= FIRST_ARCH

    @property
    def listeners(self) -> Sequence[Listener]:
        """What listens while the launch runs."""
        return (*self._sanitizer.listeners, self._descriptors)

    @property
    def outputs(self) -> Sequence[Output]:
        """What the launch should have written, for `coverage.find_never_written` when everything is over."""
        return self._sanitizer.outputs

    def findings(self) -> list[Finding]:
        """What was found; call it once, when the launch is over."""
        return self._placed(self._refused + self._of_descriptors() + self._sanitizer.findings())

    def findings_so_far(self) -> list[Finding]:
        """What was found when the launch stopped half-way."""
        return self._placed(self._refused + self._of_descriptors() + self._sanitizer.findings_so_far())

    def _placed(self, findings: list[Finding]) -> list[Finding]:
        return [with_coordinates(each, self._launch.grid) for each in findings]

    def _of_descriptors(self) -> list[Finding]:
        return self._descriptors.findings(self._launch) if self._follows_descriptors else []
