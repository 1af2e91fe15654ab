"""How messages are worded."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

from tilesight.checks.finding import Finding

_PROGRAM = re.compile(r"\bprogram (\d+)\b")


def counted(count: int, noun: str) -> str:
    """`1 lane` or `3 lanes`."""
    return f"{count} {noun}{'s' * (count != 1)}"


def with_coordinates(finding: Finding, grid: tuple[int, int, int]) -> Finding:
    """The finding with a program's place in the grid behind its linear id, where the grid has several axes."""
    if sum(extent > 1 for extent in grid) < 2:
        return finding
    return replace(
        finding, message=_PROGRAM.sub(lambda found: f"{found[0]} ({_place(int(found[1]), grid)})", finding.message)
    )


def _place(program: int, grid: tuple[int, int, int]) -> str:
    """`x 3, y 1`: of the axes that have more than one program."""
    places = [program // prod(grid[:axis]) % grid[axis] for axis in range(3)]
    return ", ".join(f"{name} {place}" for name, place, extent in zip("xyz", places, grid, strict=True) if extent > 1)
