"""What is said of many runs at scaled sizes: one fact once, with the first runs that show it and how many more do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tilesight.checks.finding import Finding
from tilesight.checks.wording import counted

SHOWN_RUNS = 2
"""Runs with another reason each that a note names with their sizes."""


@dataclass(frozen=True)
class Remark:
    """Something that was seen in one run.

    Args:
        place: file and line
        head: the fact, as a sentence begins
        run: such as `with f32[8589934592]`, and what was seen at these sizes
        tail: how the sentence ends
        reason: why; runs with the same reason but for its numbers are one fact
    """

    place: tuple[str, int]
    head: str
    run: str = ""
    tail: str = ""
    reason: str = ""

    @property
    def fact(self) -> tuple[object, ...]:
        """What two runs that show the same have in common."""
        return self.place, self.head, self.tail, re.sub(r"\d[\d,]*", "#", self.reason)

    @property
    def sighting(self) -> str:
        """The run, and the reason with its numbers."""
        return f"{self.run}: {self.reason}" if self.reason else self.run


def fold(remarks: Iterable[Remark]) -> list[Finding]:
    """A note for each fact, in the order in which they were first seen."""
    facts: dict[tuple[object, ...], list[Remark]] = {}
    for remark in remarks:
        seen = facts.setdefault(remark.fact, [])
        if remark not in seen:
            seen.append(remark)
    return [_note(seen) for seen in facts.values()]


def _note(seen: list[Remark]) -> Finding:
    first = seen[0]
    by_reason = {remark.reason: remark for remark in reversed(seen)}
    shown = [remark.sighting for remark in seen if by_reason[remark.reason] is remark][:SHOWN_RUNS]
    if len(seen) > len(shown):
        shown.append(f"and in {counted(len(seen) - len(shown), 'more run')}")
    message = f"{first.head} {'; '.join(shown)}".rstrip() + first.tail
    return Finding.of_line("overflow", first.place, message, "", level="note")
