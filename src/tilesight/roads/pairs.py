"""The hand-written kernel's lines next to their counterparts in the generated one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from tilesight.capture.parts import Parts, body_lines, find_parts
from tilesight.roads.model import LinePair

PART_ORDER = ("program_id", "mask", "load", "compute", "store")


def pair_lines(hand: str, generated: str, hand_kernel: str = "", generated_kernel: str = "") -> tuple[LinePair, ...]:
    """Line pairs by part and, within a part, in order; the longer side's rest stands alone.

    Args:
        hand, generated: the kernels' source texts
        hand_kernel, generated_kernel: the kernels' names in them; the first function when empty
    """
    left, right = _by_part(hand, hand_kernel), _by_part(generated, generated_kernel)
    return tuple(
        LinePair(part, hand_line, _text(hand, hand_line), generated_line, _text(generated, generated_line))
        for part in PART_ORDER
        for hand_line, generated_line in zip_longest(left[part], right[part], fillvalue=0)
    )


def _by_part(source: str, kernel: str) -> dict[str, Sequence[int]]:
    parts = find_parts(source, kernel)
    return {**{name: _own(parts, name) for name in ("program_id", "mask", "load", "store")},
            "compute": [line for line in body_lines(source, kernel) if not parts.of(line)]}  # fmt: skip


def _own(parts: Parts, name: str) -> list[int]:
    """The part's lines; a load or store with its mask written inline counts as the access."""
    lines: tuple[int, ...] = getattr(parts, name)
    return [line for line in lines if name in ("load", "store") or not {"load", "store"} & set(parts.of(line))]


def _text(source: str, line: int) -> str:
    return source.splitlines()[line - 1].strip() if line else ""
