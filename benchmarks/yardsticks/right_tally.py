"""What the sanitizer said of suites of kernels that are right, counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]
FAULTS = ("error", "warning")
SLOW = 3.0
WORTH_TELLING_S = 0.5
"""A launch under the sanitizer that is faster than this is not slow, whatever the engine alone takes."""


def totals(records: Sequence[Record]) -> dict[str, Any]:
    """Counts of one suite: cases by ending, launches, kernels, findings by level and by kind, seconds."""
    found = [finding for record in records for finding in record["findings"]]
    endings = Counter(record["ending"] for record in records)
    timed = [times for record in records if record["ending"] == "ended" for times in record["kernels"].values()]
    return {
        "cases": len(records),
        "ended": endings["ended"],
        "failed": endings["failed"],
        "not_finished": endings["not finished"],
        "launches": sum(record["launches"] for record in records),
        "kernels": len({_kernel_key(record, kernel) for record in records for kernel in record["kernels"]}),
        **{f"{level}s": sum(each["level"] == level for each in found) for level in (*FAULTS, "note")},
        "by_kind": {
            level: dict(Counter(each["kind"] for each in found if each["level"] == level).most_common())
            for level in (*FAULTS, "note")
        },
        "plain_s": round(sum(times["plain_s"] for times in timed), 1),
        "checked_s": round(sum(times["checked_s"] for times in timed), 1),
        "compiler_s": round(sum(times["compiler_s"] for times in timed), 1),
    }


def _kernel_key(record: Record, kernel: str) -> tuple[str, str]:
    """Inductor gives kernels of different functions one name: there each case's are its own."""
    return (record["case"] if record["suite"] == "inductor" else "", kernel)


def gathered(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Each finding once (kind, level, kernel, line), with how often it was seen and the first message."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        for each in record["findings"]:
            place = f"{Path(each['file']).name}:{each['line']}"
            is_generated = record["suite"] == "inductor"
            key = (each["kind"], each["level"], _kernel_key(record, each["kernel"]), place)
            known = found.setdefault(
                key,
                {
                    "suite": record["suite"],
                    "case": record["case"],
                    "kind": each["kind"],
                    "level": each["level"],
                    "kernel": each["kernel"],
                    "place": f"generated code:{each['line']}" if is_generated else place,
                    "message": without_folders(each["message"]),
                    "seen": 0,
                },
            )
            known["seen"] += 1
    order = [*FAULTS, "note"]
    return sorted(found.values(), key=lambda each: (order.index(each["level"]), each["suite"], each["kind"]))


def without_folders(text: str) -> str:
    return re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/([\w.+-]+)", r"\1", text)


def unfinished(records: Iterable[Record]) -> list[str]:
    """Cases that did not get to their end, with the reason."""
    return [f"{each['suite']} {each['case']}: {each['error']}" for each in records if each["ending"] != "ended"]


def slow_kernels(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Kernels whose launches cost more than three times as much under the sanitizer, the worst first."""
    shown: list[dict[str, Any]] = []
    for record in records:
        for kernel, times in record["kernels"].items():
            if record["ending"] == "ended" and times["checked_s"] > max(WORTH_TELLING_S, SLOW * times["plain_s"]):
                shown.append({"suite": record["suite"], "case": record["case"], "kernel": kernel, **times})
    return sorted(shown, key=lambda each: each["plain_s"] / each["checked_s"])


def table(by_suite: Mapping[str, Mapping[str, Any]]) -> str:
    """A line a suite."""
    columns = ("cases", "ended", "failed", "not_finished", "launches", "kernels", "errors", "warnings", "notes")
    columns += ("plain_s", "checked_s")
    lines = [f"{'':12}" + "".join(f"{name:>13}" for name in columns)]
    lines += [f"{suite:12}" + "".join(f"{row[name]:>13}" for name in columns) for suite, row in by_suite.items()]
    return "\n".join(lines)
