"""What the tables in docs have in common: where their figures lie, and how a table is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def result(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def made_with(record: dict[str, Any]) -> str:
    """`2026-12-02, torch 2.13.0, Triton 3.7.1, 2 cores`: where a table's figures come from."""
    versions = record["versions"]
    machine = record.get("gpu") or f"{record['cores']} cores"
    return f"{record['date'][:10]}, torch {versions['torch']}, Triton {versions['triton']}, {machine}"
