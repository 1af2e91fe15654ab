"""What differs between two observations: the record that `tilesight observe --diff` leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilesight.roads.display import Displayed

Status = Literal["same", "changed", "added", "removed"]

MUST_NOT_GROW = {"compiled_bytes": "compiled bytes", "kernel_count": "kernels and library calls"}
"""The figures by which one compilation is more work than another, in words."""


@dataclass(frozen=True)
class Figure:
    """One value before and after; None where it is not known."""

    key: str
    before: int | float | str | None
    after: int | float | str | None

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class KernelChange:
    """One kernel before and after.

    Args:
        before, after: its names; empty where it is not there
        status: `changed` where source, grid, config, operators or bytes differ
        figures: what differs beside the source
        source: the unified diff of the sources, hashes blanked; empty where they are the same
    """

    before: str
    after: str
    status: Status
    figures: tuple[Figure, ...] = ()
    source: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListChange:
    """Entries of one list that are on one side alone.

    Args:
        key: operators, breaks, not_fused, round_trips, recompiles or guards
    """

    key: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True)
class ObservationDiff(Displayed):
    """Two observations against each other.

    Args:
        before, after: the files
        settings: subject, inputs, target, versions
        figures: counts, bytes and times
        kernels: in the order of the second, what was removed where it stood in the first
        lists: only those that differ
    """

    before: str
    after: str
    settings: tuple[Figure, ...]
    figures: tuple[Figure, ...]
    kernels: tuple[KernelChange, ...]
    lists: tuple[ListChange, ...]

    def grown(self) -> tuple[str, ...]:
        """What is more than before, of compiled bytes and calls, and what is no longer known: a sentence each."""
        found: list[str] = []
        for figure in self.figures:
            before, after = figure.before, figure.after
            if figure.key not in MUST_NOT_GROW or not isinstance(before, int):
                continue
            if not isinstance(after, int):
                found.append(f"{MUST_NOT_GROW[figure.key]}: {before:,} before, not known now")
            elif after > before:
                found.append(f"{MUST_NOT_GROW[figure.key]}: {before:,} before, {after:,} now")
        return tuple(found)

    @property
    def is_same(self) -> bool:
        """Graphs, kernels, breaks and fusions are the same; times and settings may differ."""
        return not self.lists and all(kernel.status == "same" for kernel in self.kernels)
