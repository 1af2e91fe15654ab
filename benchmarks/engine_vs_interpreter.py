"""How much faster the engine is than Triton's interpreter, on five launches in the same run.

Run `python benchmarks/engine_vs_interpreter.py --runs 3`. Each sample is a fresh process, engine and
interpreter in turn. The engine is traced (addresses, masks and bytes are counted), the interpreter
only runs; both check their numbers. The interpreter compiles nothing, so the engine's first launch,
with Triton's compilation from an empty cache, and its second one are timed apart, and both ratios
are printed. Writes benchmarks/results/engine_vs_interpreter.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import tilesight
from engine_cases import CASES, EngineCase
from measure import Sample, run_process, summarize, with_empty_caches, write_result
from tilesight.engine import ExecutionOptions

ROADS = ("engine", "interpreter")
LAUNCHES = {"engine": 2, "interpreter": 1}


def time_launch(launch: Callable[[], object]) -> float:
    start = time.perf_counter()
    launch()
    return time.perf_counter() - start


def peak_bytes() -> int:
    """The most resident memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def launch_on(road: str, case: EngineCase) -> Callable[[], Any]:
    kernel = case.kernel[case.grid]
    if road == "interpreter":
        return lambda: kernel(*case.arguments, **case.constexprs)
    return lambda: tilesight.trace(kernel, *case.arguments, **case.constexprs)


def work(road: str, name: str) -> dict[str, object]:
    """The launches of one road in this process: seconds of each, and the memory they took."""
    case = CASES[name][0]()
    expected = case.expected()
    launch = launch_on(road, case)
    before = peak_bytes()
    seconds = [time_launch(launch) for _ in range(LAUNCHES[road])]
    working_bytes = peak_bytes() - before
    torch.testing.assert_close(case.result, expected, rtol=case.tolerance, atol=case.tolerance)
    return {"launch_s": seconds, "tensor_bytes": case.tensor_bytes, "working_bytes": working_bytes}


def sample(road: str, name: str) -> Sample:
    """A fresh process that does the work of one road."""
    with tempfile.TemporaryDirectory() as folder:
        environment = with_empty_caches(folder)
        environment["TRITON_INTERPRET"] = "1" if road == "interpreter" else "0"
        return run_process([sys.executable, str(Path(__file__).resolve()), "--road", road, "--case", name], environment)


def compare(name: str, runs: int) -> dict[str, object]:
    """Both roads in turn; a ratio is the interpreter's median over the engine's."""
    taken: dict[str, list[dict[str, Any]]] = {road: [] for road in ROADS}
    for run in range(runs):
        for road in ROADS if run % 2 == 0 else reversed(ROADS):
            process = sample(road, name)
            taken[road].append(json.loads(process.output) | {"peak_rss_bytes": process.peak_rss_bytes})
    interpreter = summarize([each["launch_s"][0] for each in taken["interpreter"]])
    first, second = (summarize([each["launch_s"][turn] for each in taken["engine"]]) for turn in range(2))
    ratios = {
        "ratio": interpreter["median"] / second["median"],
        "ratio_with_compilation": interpreter["median"] / first["median"],
        "goal": CASES[name][1],
    }
    print(
        f"{name}: interpreter {interpreter['median']:.3f} s, engine {second['median']:.3f} s "
        f"(with compilation {first['median']:.3f} s): {ratios['ratio']:.1f}x "
        f"({ratios['ratio_with_compilation']:.1f}x), asked {ratios['goal']:.0f}x",
        flush=True,
    )
    return {"interpreter_s": interpreter, "engine_first_s": first, "engine_s": second, **ratios, "samples": taken}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="fresh processes for each road")
    parser.add_argument("--case", choices=CASES, help="this launch alone")
    parser.add_argument("--road", choices=ROADS, help="do the work of one road in this process")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    if options.road:
        print(json.dumps(work(options.road, options.case)))
        return
    names = [options.case] if options.case else list(CASES)
    measured = {
        "memory_cap_bytes": ExecutionOptions().memory_cap_bytes,
        "cases": {name: compare(name, options.runs) for name in names},
    }
    print(f"written to {write_result('engine_vs_interpreter', arguments, measured)}")


if __name__ == "__main__":
    main(sys.argv[1:])
