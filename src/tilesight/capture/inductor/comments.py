"""The comments that Inductor writes above each step of its wrapper. Seen on torch 2.11.0 to 2.14.1."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"# Topologically Sorted Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]")


def comments_by_line(code: str) -> dict[int, tuple[tuple[str, ...], tuple[str, ...]]]:
    """(Dynamo's nodes, ATen operators) that a comment names, by its line (1-based)."""
    found: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for number, line in enumerate(code.splitlines(), start=1):
        match = _COMMENT.search(line)
        if match:
            found[number] = (_words(match.group(1)), _words(match.group(2)))
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
