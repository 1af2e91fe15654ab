"""What the sanitizer costs: a launch on the engine, untraced, against the same launch checked.

Run `python benchmarks/checking_speed.py --runs 7`. Each case has a fresh process: its first check, with
Triton's compilation from an empty cache, then untraced launches and checks in turn, kernels compiled. A
check is all that `tilesight check FILE.py:LAUNCH` does with a launch: every listener, every inspection, the
compilation for the target, the output written. Apart from that a whole command is timed, from start to
exit, caches empty. Writes benchmarks/results/checking_speed.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from checking_cases import CASES
from measure import run_process, summarize, with_empty_caches, write_result
from tilesight.capture.launches import EngineSession
from tilesight.roads.check import check_launch

HERE = Path(__file__).resolve()
COMMAND = """
import sys
from tilesight.cli import main
try:
    main()
except SystemExit as leaving:
    sys.exit(0 if leaving.code == 1 else leaving.code)  # 1: there are findings
"""


def seconds_of(work: Callable[[], object]) -> tuple[float, float]:
    """Wall time, and the processors' time of all threads, which other processes' load hardly changes."""
    start, cpu_start = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - cpu_start


def work(name: str, runs: int) -> dict[str, object]:
    """A case in this process: the first check, then both roads in turn, each as often as `runs` says."""
    case, session = CASES[name], EngineSession()
    results: list[torch.Tensor] = []

    def launch() -> torch.Tensor:
        results[:] = [case.launch()]
        return results[0]

    first_s, _ = seconds_of(lambda: check_launch(launch))
    found = check_launch(launch)
    torch.testing.assert_close(results[0], case.expected(), rtol=case.tolerance, atol=case.tolerance)
    untraced: list[tuple[float, float]] = []
    checked: list[tuple[float, float]] = []
    with session:
        launch()
    for _ in range(runs):
        with session:
            untraced.append(seconds_of(launch))
        checked.append(seconds_of(lambda: check_launch(launch)))
    findings = [f"{each.level} {each.kind}" for each in found.findings]
    taken = {"untraced": untraced, "checked": checked}
    walls = {f"{road}_s": [wall_s for wall_s, _ in each] for road, each in taken.items()}
    cpus = {f"{road}_cpu_s": [cpu_s for _, cpu_s in each] for road, each in taken.items()}
    return {"first_check_s": first_s, "findings": findings, "samples": {**walls, **cpus}}


def measure(name: str, runs: int) -> dict[str, Any]:
    """One case: its process's samples, and a whole command from empty caches."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(HERE), "--case", name, "--runs", str(runs), "--here"]
        taken: dict[str, Any] = json.loads(run_process([sys.executable, *arguments], with_empty_caches(folder)).output)
    with tempfile.TemporaryDirectory() as folder:
        subject = f"{HERE.with_name('checking_cases.py')}:{name}"
        command = run_process([sys.executable, "-c", COMMAND, "check", subject], with_empty_caches(folder))
    summaries = {road: summarize(samples) for road, samples in taken["samples"].items()}
    case = CASES[name]
    return {
        "title": case.title,
        **summaries,
        "ratio": summaries["checked_s"]["median"] / summaries["untraced_s"]["median"],
        "ratio_of_smallest": summaries["checked_s"]["min"] / summaries["untraced_s"]["min"],
        "ratio_of_cpu": summaries["checked_cpu_s"]["median"] / summaries["untraced_cpu_s"]["median"],
        "most_ratio": case.most_ratio,
        "most_s": case.most_s,
        "first_check_s": taken["first_check_s"],
        "command_s": command.wall_s,
        "command_peak_rss_bytes": command.peak_rss_bytes,
        "findings": taken["findings"],
        "load_average": load,
        "samples": taken["samples"],
    }


def show(taken: Mapping[str, Any]) -> str:
    untraced, checked = (taken[name]["median"] for name in ("untraced_s", "checked_s"))
    return (
        f"{taken['title']}: untraced {untraced:.4f} s, checked {checked:.4f} s, {taken['ratio']:.2f}x "
        f"({taken['ratio_of_smallest']:.2f}x of the smallest, {taken['ratio_of_cpu']:.2f}x of CPU time); "
        f"first check {taken['first_check_s']:.2f} s, command {taken['command_s']:.2f} s; "
        f"load {taken['load_average']:.2f}; {taken['findings']}"
    )


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="launches and checks of each case")
    parser.add_argument("--case", choices=CASES, help="this launch alone; nothing is written")
    parser.add_argument("--here", action="store_true", help="time the case in this process")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    if options.here:
        print(json.dumps(work(options.case, options.runs)))
        return
    measured: dict[str, dict[str, Any]] = {}
    for name in [options.case] if options.case else CASES:
        measured[name] = measure(name, options.runs)
        print(show(measured[name]), flush=True)
    if not options.case:
        print(f"written to {write_result('checking_speed', arguments, {'runs': options.runs, 'cases': measured})}")


if __name__ == "__main__":
    main(sys.argv[1:])
