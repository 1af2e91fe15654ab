"""The whole sanitizer over kernels that are right: Triton's tutorials, Inductor's, Liger-Kernel's, FlagGems', lessons/.

Run `python -m benchmarks.yardsticks.right_kernels --path FOLDER` (the folder with Triton's tutorials), with
`liger-kernel`, `flag-gems` and `expecttest` installed. Every case runs twice in a process that is replaced when
it dies or hangs: on the engine alone, then under the sanitizer. Goal: no error, no warning. Writes
benchmarks/results/sanitizer_right_kernels.json.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS, describe_machine
from benchmarks.yardsticks.inductor_operators import read_records, wait_for
from benchmarks.yardsticks.right_case import USUAL_GPU, check_right_case
from benchmarks.yardsticks.right_suites import SUITES, Asked
from benchmarks.yardsticks.right_tally import gathered, slow_kernels, table, totals, unfinished
from tilesight.capture.launches import EngineSession
from tilesight.targets import target as find_target

NAME = "sanitizer_right_kernels"
PACKAGES = ("liger-kernel", "flag-gems")
PER_PROCESS = 80
NOTES = (
    "each case runs once on the engine alone (plain_s) and once under the sanitizer (checked_s: the launch with all"
    " listeners and the inspections after it; compiler_s: asking the compiler of an H200 whether it takes the kernel)",
    "tutorials: files of facebookexperimental/triton, tag v3.7.1, kernels and launchers unchanged",
    "10-block-scaled-matmul is checked for a B200, which it says it needs; all else for an H200",
    "inductor: torch.compile's code for an H200 of functions of torch's op_db, evenly spaced, the largest of the"
    " first samples, forward and backward, float32 and bfloat16",
    "failed: the launcher raises on the engine, or the library refuses the case; what it launched before counts",
    "a finding of one kernel and line is listed once; `seen` counts the launches that show it",
)


def work(suite: str, log: Path, first: int, asked: Asked, limit_s: float, select: str) -> None:
    """A process's work: cases from `first` on; one line in the log when a case begins and one when it ends."""
    session = EngineSession(int(find_target(USUAL_GPU).arch), is_pinned=True)
    with session, SUITES[suite](asked) as cases, log.open("a", encoding="utf-8") as file:
        chosen = [(number, case) for number, case in enumerate(cases) if select in case.name]
        waiting = [(number, case) for number, case in chosen if number >= first]
        for number, case in waiting[:PER_PROCESS]:
            print(json.dumps({"begin": number, "name": case.name}), file=file, flush=True)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                record = check_right_case(case, session, limit_s)
            print(json.dumps({"end": number, **record, "suite": suite}), file=file, flush=True)
        if len(waiting) <= PER_PROCESS:
            print(json.dumps({"all": len(chosen)}), file=file, flush=True)


def supervise(suite: str, log: Path, options: argparse.Namespace) -> None:
    """Work through a suite in processes that are replaced when they die, hang or grow old."""
    log.touch()
    while not any("all" in record for record in read_records(log)):
        records = list(read_records(log))
        begun = {record["begin"]: record["name"] for record in records if "begin" in record}
        ended = {record["end"] for record in records if "end" in record}
        command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--worker", str(log), "--suites", suite]
        command += ["--first", str(max(begun, default=-1) + 1), "--limit", str(options.limit)]
        command += ["--functions", str(options.functions), "--select", options.select]
        command += ["--path", str(options.path)] if options.path else []
        with log.with_suffix(".err").open("a") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
            hung = wait_for(process, log, 3 * options.limit + 300)
        after = list(read_records(log))
        begun = {record["begin"]: record["name"] for record in after if "begin" in record}
        ended = {record["end"] for record in after if "end" in record}
        if len(after) == len(records):
            raise RuntimeError(f"no case of {suite} begins: {log.with_suffix('.err').read_text()[-2000:]}")
        for number in sorted(begun.keys() - ended):
            reason = f"nothing heard for {hung:g} s" if hung else f"the process died: {process.returncode}"
            lost = {"end": number, "suite": suite, "case": begun[number], "ending": "not finished", "error": reason}
            with log.open("a", encoding="utf-8") as file:
                print(json.dumps({**lost, "launches": 0, "kernels": {}, "findings": []}), file=file)


def records_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The finished cases of each suite that has a log in the folder."""
    found: dict[str, list[dict[str, Any]]] = {}
    for suite in SUITES:
        log = folder / f"{suite}.jsonl"
        if log.exists():
            found[suite] = [record for record in read_records(log) if "end" in record]
    return found


def command_of(options: argparse.Namespace, suites: Iterable[str]) -> str:
    """The command that asks for these suites, without this machine's folders."""
    command = ["python", "-m", "benchmarks.yardsticks.right_kernels", "--path", "FOLDER", "--suites", ",".join(suites)]
    command += ["--functions", str(options.functions)] if options.functions else []
    return " ".join([*command, "--limit", f"{options.limit:g}"])


def write_result(options: argparse.Namespace, by_suite: dict[str, list[dict[str, Any]]]) -> Path:
    """Writes results/sanitizer_right_kernels.json."""
    machine = describe_machine()
    versions = machine.pop("versions")
    assert isinstance(versions, dict)
    records = [record for each in by_suite.values() for record in each]
    measured = {
        "benchmark": NAME,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command_of(options, by_suite),
        **machine,
        "versions": {**versions, **{package: metadata.version(package) for package in PACKAGES}},
        "notes": list(NOTES),
        "suites": {suite: totals(each) for suite, each in by_suite.items()},
        "findings": gathered(records),
        "unfinished": unfinished(records),
        "slower_than_3x": slow_kernels(records),
    }
    path = RESULTS / f"{NAME}.json"
    path.write_text(json.dumps(measured, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def show(by_suite: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """The findings that are no notes, the cases that did not end, the table."""
    records = [record for each in by_suite.values() for record in each]
    for each in gathered(records):
        if each["level"] != "note":
            where = f"{each['kernel']} {each['place']} ×{each['seen']}"
            yield f"{each['level']:8}{each['kind']:20}{where}: {each['message']}"
    yield from unfinished(records)
    yield table({suite: totals(each) for suite, each in by_suite.items()})


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, help="folder with 01-vector-add.py and its neighbours")
    parser.add_argument("--suites", default=",".join(SUITES), help="suites, separated by commas")
    parser.add_argument("--functions", type=int, default=0, help="of torch's operators so many; 0 is all")
    parser.add_argument("--select", default="", help="only cases whose name contains this; writes nothing")
    parser.add_argument("--limit", type=float, default=120, help="seconds a case may take")
    parser.add_argument("--processes", type=int, default=1, help="how many suites at once")
    parser.add_argument(
        "--log", type=Path, help="folder where finished cases are kept; a second run goes on from there"
    )
    parser.add_argument("--report-only", action="store_true", help="write the result of what the log has, run nothing")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    if options.worker:
        asked = Asked(options.path, options.functions)
        work(options.suites, options.worker, options.first, asked, options.limit, options.select)
        return
    suites = options.suites.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.log or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not options.report_only:
            with ThreadPoolExecutor(options.processes) as pool:
                list(pool.map(lambda suite: supervise(suite, folder / f"{suite}.jsonl", options), suites))
        by_suite = {suite: records for suite, records in records_of(folder).items() if suite in suites}
    print("\n".join(show(by_suite)))
    if not options.select:
        print(f"written to {write_result(options, by_suite)}")


if __name__ == "__main__":
    main(sys.argv[1:])
