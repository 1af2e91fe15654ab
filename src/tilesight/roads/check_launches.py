"""Every launch of a session under the sanitizer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from tilesight.capture.launches import EngineSession
from tilesight.capture.numerics import flatten
from tilesight.checks.coverage import Output, find_never_written
from tilesight.checks.finding import Finding
from tilesight.checks.place import line_of, name_of
from tilesight.engine import Execution
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Access, AccessKind, Listener
from tilesight.ir.module import Operation
from tilesight.roads.checked_launch import CheckedLaunch
from tilesight.roads.unlaunchable import finding_of_compile_error
from tilesight.targets import Target

MOST_OFFSETS = 4096
"""Lanes whose offsets are compared."""


@dataclass(frozen=True)
class Site:
    """A line that touches a tensor, which lies at `address`; `offsets` tells the places in it that it touches first."""

    address: int
    tensor: str
    kind: AccessKind
    file: str
    line: int
    offsets: int = 0


@dataclass(frozen=True)
class WatchedLaunch:
    """A launch that is over: what it was, the lines that touched each tensor, and how many accesses it took."""

    kernel: str
    grid: tuple[int, int, int]
    constexprs: dict[str, object]
    sites: tuple[Site, ...]
    accesses: int


class _SiteListener(Listener):
    """Remembers which operations touch which tensor, and counts."""

    hears_in_any_order = True

    def __init__(self) -> None:
        self._seen: dict[tuple[int, Operation], Access] = {}
        self.accesses = 0

    def after_access(self, access: Access) -> None:
        self.accesses += 1
        if access.memory is not None:
            self._seen.setdefault((access.memory.address, access.operation), access)

    def sites(self, launch: Launch) -> tuple[Site, ...]:
        """One for each tensor and line, in the order of lines."""
        found = {
            Site(address, name_of(access.memory), access.kind, *line_of(operation, launch), _offsets_of(access))
            for (address, operation), access in self._seen.items()
        }
        return tuple(sorted(found, key=lambda site: (site.file, site.line, site.kind, site.address)))


def _offsets_of(access: Access) -> int:
    """A checksum of offsets in the tensor, of some of the lanes where there are many."""
    assert access.memory is not None
    addresses = np.broadcast_to(access.address, access.shape)
    some = addresses.reshape(-1)[:: max(1, addresses.size // MOST_OFFSETS)]
    return crc32((some - access.memory.address).tobytes())


@dataclass
class CheckObserver:
    """Puts a sanitizer around every launch of a session and keeps what it finds.

    Args:
        session: the one that runs the launches
        target: the GPU that is asked whether it takes them
        also_hears: listeners that hear every launch beside the sanitizer
    """

    session: EngineSession
    target: Target
    also_hears: Sequence[Listener] = ()
    launches: list[WatchedLaunch] = field(default_factory=list[WatchedLaunch])
    findings: list[Finding] = field(default_factory=list[Finding])
    outputs: list[Output] = field(default_factory=list[Output])
    _running: dict[int, tuple[CheckedLaunch, _SiteListener]] = field(
        default_factory=dict[int, tuple[CheckedLaunch, _SiteListener]]
    )

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        checked, sites = CheckedLaunch(self.session, launch, self.target), _SiteListener()
        self._running[id(launch)] = checked, sites
        return (*checked.listeners, sites, *self.also_hears)

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        checked, sites = self._running.pop(id(launch))
        self.findings += checked.findings()
        self.outputs += checked.outputs
        known = launch.kernel, launch.grid, launch.constexprs, sites.sites(launch)
        self.launches.append(WatchedLaunch(*known, sites.accesses))

    def note_failure(self, error: BaseException) -> None:
        """The launching function raised: a kernel that does not compile is a finding, and so is what stopped it."""
        for checked, _ in self._running.values():
            self.findings += checked.findings_so_far()
        self._running.clear()
        found = finding_of_compile_error(error, self.target)
        if found is not None:
            self.findings.append(found)

    def finish(self, returned: Any) -> None:
        """All launches are over: look for elements of outputs that nothing has written.

        Args:
            returned: what the launching function returned; where there are tensors in it, others were workspace
        """
        kept = {tensor.untyped_storage().data_ptr() for tensor in flatten(returned)}
        outputs = [each for each in self.outputs if not kept or _storage_of(each) in kept]
        self.findings += find_never_written(outputs)

    def site_of(self, addresses: range) -> Site | None:
        """The first line that loads a tensor which lies there, or else that touches it in another way."""
        found = [site for launch in self.launches for site in launch.sites if site.address in addresses]
        return min(found, key=lambda site: site.kind != "load", default=None)

    def store_into(self, outputs: Sequence[Any]) -> Site | None:
        """The first line that stores to one of the returned tensors."""
        starts = {tensor.data_ptr() for tensor in outputs}
        sites = (site for launch in self.launches for site in launch.sites)
        return next((site for site in sites if site.kind == "store" and site.address in starts), None)

    @property
    def constexprs(self) -> Collection[dict[str, object]]:
        """Of every launch."""
        return [launch.constexprs for launch in self.launches]


def _storage_of(output: Output) -> int:
    undefined = output.memory.undefined
    return undefined.address if undefined is not None else output.memory.address
