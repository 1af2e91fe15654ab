"""How messages are worded."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 lane` or `3 lanes`."""
    return f"{count} {noun}{'s' * (count != 1)}"
