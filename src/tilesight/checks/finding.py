"""A finding: one fault of one kernel, in the author's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "note"]

SHOWN_PROGRAMS = 8
"""How many of the programs that show a fault a finding names."""


def page_of(kind: str) -> str:
    """The page about a kind of finding, relative to the package: `checks/pages/race.md`."""
    return f"checks/pages/{kind}.md"


@dataclass(frozen=True)
class Finding:
    """What is wrong, where, and how to repair it.

    Args:
        kind: the fault's name, such as `out-of-bounds`
        file, line: the kernel's own line
        programs: linear ids of programs that show the fault (at most the first 8)
        program_count: how many programs show it
        lanes: first and last lane (flat index in the block) of the first such program
        lane_count: how many lanes in all programs show it
        tensor: the tensor concerned
        message: one sentence with the numbers
        hint: the repair
        level: `error`: results are wrong or undefined, or may be; `warning`: wasteful, imprecise or not
            reproducible; `note`: seen, and harmless as it stands (it fails no check)
    """

    kind: str
    file: str
    line: int
    programs: tuple[int, ...]
    program_count: int
    lanes: tuple[int, int]
    lane_count: int
    tensor: str
    message: str
    hint: str
    level: Level = "error"

    @classmethod
    def of_line(
        cls,
        kind: str,
        place: tuple[str, int],
        message: str,
        hint: str,
        *,
        tensor: str = "",
        program_count: int = 0,
        lane_count: int = 0,
        level: Level = "error",
    ) -> Finding:
        """A fault of a line or of a whole launch, which no program shows more than another.

        Args: place: its file and line; the others are the finding's own
        """
        return cls(kind, *place, (), program_count, (0, 0), lane_count, tensor, message, hint, level)
