"""Who finds the corpus's seeded faults and leaves the repaired twins in peace: Tilesight, TileLens, the interpreter.

`python -m benchmarks.yardsticks.sanitizer [KIND…]` shows what Tilesight misses; `--all` tries the three
tools, writes the answers into results/sanitizer_corpus.json over older ones, and prints the counts. Every
launch has a process of its own. TileLens comes in through its own command, `tile-sanitizer`, which is
looked for on PATH; it is to see the same torch and Triton.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS, describe_machine
from benchmarks.yardsticks.sanitizer_tally import TOOLS, Record, failures, has, merge, misses, name_of, tally
from tests.corpus.catalogue import ALL
from tilesight.checks.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("sanitizer_child.py")
STORE = RESULTS / "sanitizer_corpus.json"
COLUMNS = {
    "tilesight": {"kind_and_line": "kind, line", "kind": "kind", "anything": "any", "twin_quiet": "quiet"},
    "tilelens": {"reported": "reported", "on_line": "line", "raised": "raised", "twin_quiet": "quiet"},
    "interpreter": {"raised": "raised", "numbers_wrong": "wrong", "twin_quiet": "quiet"},
}
NOTES = (
    "found = an error or a warning of the fault's kind, on one of the lines that the pair marks; "
    "a twin is quiet when nothing at all is said of it, not even a note",
    "Tilesight checks a case over its matrix of shapes, dtypes and layouts; the other two run the case's launcher "
    "on the case's own inputs, as an author would",
    "raised = the faulty launch ends with an exception or a crash where its twin runs through",
    "wrong = the launch's result differs from the reference that the pair carries by more than the published "
    "tolerance, where its twin's does not; the interpreter has no reference, so this is counted apart; where memory "
    "that nothing wrote reaches the result, the count may change from run to run",
    "TileLens checks bounds: it reports the first access outside a tensor and stops; a launch under it writes nothing",
)


def command_of(tool: str) -> list[str]:
    """How a tool runs a Python file.

    Raises: FileNotFoundError: when TileLens is not installed
    """
    if tool != "tilelens":
        return [sys.executable, str(CHILD)]
    found = shutil.which("tile-sanitizer")
    if found is None:
        raise FileNotFoundError(
            "no tile-sanitizer on PATH: pip install tilelens, or --tool tilesight --tool interpreter"
        )
    return [found, str(CHILD)]


def environment_of(tool: str) -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TRITON_INTERPRET": str(int(tool == "interpreter"))}


def ask(tool: str, kind: str, limit_s: float) -> tuple[Mapping[str, str], list[Record]]:
    """One tool's answers on the pairs of a kind, and the versions it ran with.

    Raises: RuntimeError: when the tool itself does not start, with the end of what it wrote
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "answers")
        command = [*command_of(tool), tool, str(path), str(limit_s), kind]
        done = subprocess.run(command, cwd=ROOT, env=environment_of(tool), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{tool} on {kind}: exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
        header, *lines = path.read_text().splitlines()
    records: list[Record] = []
    for line in lines:
        record = json.loads(line)
        answer = {name: record.pop(name) for name in ("lines", "faulty", "repaired")}
        records.append({**record, tool: answer})
    return json.loads(header)["versions"], records


def ask_all(
    tools: Sequence[str], kinds: Sequence[str], limit_s: float, processes: int
) -> Iterator[tuple[str, str, Mapping[str, str], list[Record]]]:
    """(tool, kind, versions, records), as they come in the order of tools."""
    wanted = [(tool, kind) for tool in tools for kind in kinds]
    with ThreadPoolExecutor(processes) as pool:
        answers = [(tool, kind, pool.submit(ask, tool, kind, limit_s)) for tool, kind in wanted]
        for tool, kind, answer in answers:
            yield (tool, kind, *answer.result())


def show(records: Sequence[Record]) -> str:
    """The counts as a table, a kind a line."""
    counted = tally(records)
    widths = {tool: sum(max(8, len(title)) + 1 for title in COLUMNS[tool].values()) for tool in TOOLS}
    titles = ["".join(f" {title:>8}" for title in COLUMNS[tool].values()) for tool in TOOLS]
    lines = [f"{'':26}" + "".join(f" | {tool:{widths[tool]}}" for tool in TOOLS), f"{'kind':20} pairs"]
    lines[-1] += "".join(f" | {title}" for title in titles)
    for kind, tools in [*counted["by_kind"].items(), ("all", counted["totals"])]:
        lines.append(f"{kind:20} {max(tools[tool]['pairs'] for tool in TOOLS):5}")
        for tool, columns in COLUMNS.items():
            cells = (f"{tools[tool].get(name, '-'):>{max(8, len(title))}}" for name, title in columns.items())
            lines[-1] += " | " + "".join(f" {cell}" for cell in cells)
    return "\n".join(lines)


def store(records: Sequence[Record], measured: Mapping[str, Mapping[str, str]], tilelens: str | None) -> None:
    """Writes the answers over those that are stored, with the date of each tool and kind."""
    before: dict[str, Any] = {"pairs": [], "measured": {}, "versions": {}}
    before |= json.loads(STORE.read_text()) if STORE.exists() else {}
    merged = merge(before["pairs"], records, [(seeded.kind, seeded.name) for seeded in ALL])
    machine = describe_machine()
    versions = dict(machine.pop("versions"))  # pyright: ignore[reportCallIssue, reportArgumentType]
    dates = {tool: {**before["measured"].get(tool, {}), **measured.get(tool, {})} for tool in TOOLS}
    record = {
        "benchmark": "sanitizer_corpus",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": "python -m benchmarks.yardsticks.sanitizer --all",
        **machine,
        "versions": {**versions, "tilelens": tilelens or before["versions"].get("tilelens")},
        "notes": list(NOTES),
        "measured": dates,
        **tally(merged),
        "missed": [name_of(each) for each in merged if has(each, "tilesight", "kind_and_line") is False],
        "blamed": [name_of(each) for each in merged if has(each, "tilesight", "twin_quiet") is False],
        "failures": {tool: failures(merged, tool) for tool in TOOLS},
        "pairs": merged,
    }
    STORE.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[*KINDS, []], help="these kinds; all without")
    parser.add_argument("--all", action="store_true", help="all three tools, written into the results")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="this tool, or these; Tilesight without")
    parser.add_argument("--limit", type=float, default=1200, metavar="SECONDS", help="of one launch or check")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    tools = options.tool or (TOOLS if options.all else ("tilesight",))
    kinds = [kind for kind in KINDS if kind in (options.kinds or KINDS)]
    records: list[Record] = []
    tilelens: str | None = None
    for tool, kind, versions, answers in ask_all(tools, kinds, options.limit, options.processes):
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        records = merge(records, answers, [(seeded.kind, seeded.name) for seeded in ALL])
        tilelens = versions.get("tilelens", tilelens)
        print("\n".join([f"{tool} on {kind}: {len(answers)} pairs", *misses(answers)]), flush=True)
        if options.all:
            store(answers, {tool: {kind: date}}, tilelens)
    stored: list[Any] = json.loads(STORE.read_text())["pairs"] if options.all else records
    print(show(stored))


if __name__ == "__main__":
    main(sys.argv[1:])
