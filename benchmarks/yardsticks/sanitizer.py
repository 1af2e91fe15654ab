"""How many seeded faults the sanitizer finds, and what it says of the repaired twins.

`python -m benchmarks.yardsticks.sanitizer [KIND…]`
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.catalogue import ALL
from tests.corpus.model import Seeded, fault_lines
from tilesight.errors import TilesightError
from tilesight.roads.check import check
from tilesight.roads.model import Check


@dataclass(frozen=True)
class Result:
    """One pair: was the fault found under its kind, on a marked line; what the twin's check said."""

    seeded: Seeded
    kind_found: bool
    line_found: bool
    faulty: tuple[str, ...]
    twin: tuple[str, ...]
    seconds: float


def run_pair(seeded: Seeded) -> Result:
    """Check a faulty kernel and its twin."""
    started = time.perf_counter()
    faulty, twin = checked(seeded, seeded.faulty), checked(seeded, seeded.repaired)
    lines = fault_lines(seeded)
    found = [each for each in faulty.findings if each.kind == seeded.kind]
    on_line = any((str(Path(each.file).resolve()), each.line) in lines for each in found)
    return Result(seeded, bool(found), on_line, told(faulty), told(twin), time.perf_counter() - started)


def checked(seeded: Seeded, subject: object) -> Check:
    """The check of one of the two, with what it prints kept away."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check(subject, target=seeded.target, scale_to=seeded.scale_to)  # type: ignore[arg-type]


def told(found: Check) -> tuple[str, ...]:
    """Findings, notes included, and cases that failed, a line each."""
    findings = [f"{f.level} {f.kind} {Path(f.file).name}:{f.line} {f.message} | {f.hint}" for f in found.findings]
    failed = [f"failed {case.inputs} {case.note or case.error}" for case in found.cases if case.ok is False]
    return (*findings, *failed)


def main(kinds: Sequence[str]) -> None:
    results: list[Result] = []
    for seeded in ALL:
        if kinds and seeded.kind not in kinds:
            continue
        try:
            result = run_pair(seeded)
        except TilesightError as error:
            result = Result(seeded, False, False, (f"check failed: {error}",), (), 0.0)
        results.append(result)
        if not result.line_found or result.twin:
            print(f"{seeded}: kind {result.kind_found}, line {result.line_found}, {result.seconds:.1f} s")
            print("\n".join(f"    faulty {line}" for line in result.faulty))
            print("\n".join(f"    TWIN   {line}" for line in result.twin))
            sys.stdout.flush()
    totals, found, lines = Counter[str](), Counter[str](), Counter[str]()
    for result in results:
        totals[result.seeded.kind] += 1
        found[result.seeded.kind] += result.kind_found
        lines[result.seeded.kind] += result.line_found
    for kind in totals:
        print(f"{kind:20} {totals[kind]:3} faults, kind found {found[kind]:3}, line found {lines[kind]:3}")
    quiet = sum(not result.twin for result in results)
    print(f"all {sum(totals.values())}, kind {sum(found.values())}, line {sum(lines.values())}, twins quiet {quiet}")


if __name__ == "__main__":
    main(sys.argv[1:])
