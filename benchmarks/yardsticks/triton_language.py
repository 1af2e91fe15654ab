"""How many of Triton's own language tests pass on the engine, next to TRITON_INTERPRET=1.

Run `python -m benchmarks.yardsticks.triton_language --tests PATH` with PATH the folder `python/test` of
the source of the Triton installed, or of the nearest version that can be had; the tests are not part of
this repository. Both sides run what Triton selects for its interpreter (`--device cpu -m interpreter`).
Writes benchmarks/results/triton_language.json: counts for each file and side, and every test that does
not pass on the engine, by reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import write_result
from benchmarks.yardsticks.triton_language_reasons import Reason, TestOutcome, read_outcomes, reasons_of

ROOT = Path(__file__).resolve().parents[2]
ENGINE_IN_CHILDREN = Path(__file__).resolve().parent / "engine_in_children"
SIDES = ("engine", "interpreter")
FILES = (
    "test_block_pointer.py",
    "test_core.py",
    "test_line_info.py",
    "test_standard.py",
    "test_subprocess.py",
    "test_tensor_descriptor.py",
    "test_tuple.py",
)
"""The files of test/unit/language that hold tests marked `interpreter` (Triton 3.7.1)."""


def run_side(side: str, options: argparse.Namespace, folder: Path) -> dict[str, TestOutcome]:
    """Run the selection in fresh processes and return how each test ended, by its id."""
    path = folder / f"{side}.jsonl"
    if path.exists():
        return read_outcomes(path)
    plugin = ["-p", "benchmarks.yardsticks.engine_plugin", "--outcomes", str(path), "--sample", str(options.sample)]
    tests = options.tests.resolve()
    switches = ["--on-engine"] if side == "engine" else []
    shape = ["-c", os.devnull, "--rootdir", str(tests), "-p", "no:cacheprovider", "-q", "--tb=no"]
    shape += ["-n", str(options.processes)]
    command = [sys.executable, "-m", "pytest", *shape, *plugin, *switches, "--device", "cpu", "-m", "interpreter"]
    files = [str(tests / "unit" / "language" / name) for name in FILES]
    narrowed = ["-k", " or ".join(options.select)] if options.select else []
    subprocess.run([*command, *narrowed, *files], env=_environment(side), cwd=tests, check=False)
    return read_outcomes(path)


def _environment(side: str) -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    if side == "engine":
        paths.insert(0, str(ENGINE_IN_CHILDREN))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    environment["TRITON_INTERPRET"] = "1" if side == "interpreter" else "0"
    return environment


def count_by_file(outcomes: Mapping[str, TestOutcome]) -> dict[str, dict[str, int]]:
    """File → outcome → tests."""
    counts: dict[str, Counter[str]] = {}
    for test, outcome in outcomes.items():
        counts.setdefault(Path(test.split("::")[0]).name, Counter())[outcome.outcome] += 1
    return {file: dict(sorted(counts[file].items())) for file in sorted(counts)}


def total(outcomes: Mapping[str, TestOutcome]) -> dict[str, int]:
    return dict(sorted(Counter(outcome.outcome for outcome in outcomes.values()).items()))


def only_one_passes(passing: Mapping[str, TestOutcome], other: Mapping[str, TestOutcome]) -> list[str]:
    """The tests that pass on one side and, on the other, do not."""
    return sorted(
        test
        for test, outcome in passing.items()
        if outcome.passed and not (other[test].passed if test in other else False)
    )


def compare(sides: Mapping[str, Mapping[str, TestOutcome]]) -> dict[str, object]:
    """Counts of every side that ran, the engine's reasons, and where the two sides differ."""
    measured: dict[str, object] = {
        "totals": {side: total(outcomes) for side, outcomes in sides.items()},
        "files": {side: count_by_file(outcomes) for side, outcomes in sides.items()},
    }
    if "engine" in sides:
        measured["engine_reasons"] = [_describe(reason) for reason in reasons_of(sides["engine"])]
    if len(sides) == len(SIDES):
        engine, interpreter = sides["engine"], sides["interpreter"]
        measured["interpreter_only"] = {
            test: engine[test].text if test in engine else "not collected"
            for test in only_one_passes(interpreter, engine)
        }
        measured["engine_only"] = len(only_one_passes(engine, interpreter))
        measured["interpreter_reasons"] = [_describe(reason) for reason in reasons_of(interpreter)]
    return measured


def _describe(reason: Reason) -> dict[str, object]:
    return {
        "outcome": reason.outcome,
        "reason": reason.text,
        "tests": len(reason.tests),
        "example": reason.tests[0],
        "example_text": reason.example,
    }


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=Path, required=True, help="Triton's python/test folder")
    parser.add_argument("--source", default="", help="where the tests come from, for the record")
    parser.add_argument("--runs", choices=("both", *SIDES), default="both", help="which sides to run")
    parser.add_argument("--select", nargs="*", default=[], help="only tests whose names contain one of these")
    parser.add_argument("--processes", type=int, default=2, help="pytest workers")
    parser.add_argument("--sample", type=int, default=0, help="run so many parametrizations of each test; 0 for all")
    parser.add_argument("--keep", type=Path, help="keep outcomes in this folder; a side that is there is not run again")
    return parser.parse_args(arguments)


def _command(options: argparse.Namespace) -> str:
    """What was run, without the folders of the machine it was run on."""
    words = ["python", "-m", "benchmarks.yardsticks.triton_language", "--tests", "PATH", "--runs", options.runs]
    words += ["--select", *options.select] if options.select else []
    return " ".join([*words, "--sample", str(options.sample)])


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    chosen = SIDES if options.runs == "both" else (options.runs,)
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        sides = {side: run_side(side, options, folder) for side in chosen}
    measured = {"command": _command(options), "tests": options.source, **compare(sides)}
    print(json.dumps(measured["totals"], indent=1))
    print(f"written to {write_result('triton_language', arguments, measured)}")


if __name__ == "__main__":
    main(sys.argv[1:])
