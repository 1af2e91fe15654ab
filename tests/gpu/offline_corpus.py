"""Compile the corpus for the H200 with no GPU visible and on one, and compare what is generated.

    python -m tests.gpu.offline_corpus --side offline --out offline.json
    python -m tests.gpu.offline_corpus --side device --out device.json
    python -m tests.gpu.offline_corpus --side both --out folder
    python -m tests.gpu.offline_corpus --compare offline.json device.json

The device side needs an NVIDIA H200. Each function is compiled in one of several processes; one that fails, or takes
its process with it, is written down as failed and the rest go on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.gpu.generated import Outcome
from tests.gpu.generated_differences import report_of
from tests.gpu.workers import Worker

HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
DEVICE = {"TORCHINDUCTOR_COMPILE_THREADS": "2", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}


def main() -> None:
    options = parse(sys.argv[1:])
    if options.compare:
        sides = [read(Path(path)) for path in options.compare]
        print(report_of(*sides))
        return
    names = [name for name in known_names() if re.search(options.only, name)]
    ends = time.monotonic() + options.limit
    if options.side == "both":
        compare_both(names, Path(options.out), options.jobs, ends)
    else:
        write(Path(options.out), run_side(options.side, names, options.jobs, ends))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.offline_corpus")
    parser.add_argument("--side", choices=("offline", "device", "both"), default="offline")
    parser.add_argument("--out", default="corpus", help="a JSON file; a folder where both sides are compiled")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="processes of a side")
    parser.add_argument("--limit", type=float, default=3600, help="seconds, after which the rest is left out")
    parser.add_argument("--only", default="", help="a regular expression that a name must contain")
    parser.add_argument("--compare", nargs=2, metavar=("OFFLINE", "DEVICE"))
    return parser.parse_args(arguments)


def known_names() -> list[str]:
    """Asked of a process that sees no GPU, for importing the families makes torch look for one."""
    with Worker("offline", HIDDEN) as worker:
        return worker.names()


def compare_both(names: list[str], folder: Path, jobs: int, ends: float) -> None:
    """Both sides at once, into `folder`, and what differs on the terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    sides = run_both(names, jobs, ends)
    for side, outcomes in zip(("offline", "device"), sides, strict=True):
        write(folder / f"{side}.json", outcomes)
    report = report_of(*sides)
    (folder / "report.txt").write_text(report + "\n")
    print(report)


def run_both(names: list[str], jobs: int, ends: float) -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    """(offline, on the device): both sides at the same time."""
    with ThreadPoolExecutor(2) as pool:
        offline = pool.submit(run_side, "offline", names, jobs, ends)
        device = pool.submit(run_side, "device", names, max(1, jobs - 2), ends)
        return offline.result(), device.result()


def run_side(side: str, names: list[str], jobs: int, ends: float) -> dict[str, Outcome]:
    """What each function became, from `jobs` processes, in the time that is left until `ends`."""
    waiting = list(reversed(names))
    found: dict[str, Outcome] = {}

    def work(position: int) -> None:
        with tempfile.TemporaryDirectory() as cache:
            extra = {"TORCHINDUCTOR_CACHE_DIR": cache, **(HIDDEN if side == "offline" else DEVICE)}
            with Worker(side, extra) as worker:
                while waiting:
                    name = waiting.pop()
                    found[name] = worker.compile(name, ends - time.monotonic())
                    word = f"failed: {found[name].error}" if found[name].error else f"{found[name].seconds:.1f} s"
                    print(f"{side} {len(found)}/{len(names)} {name}: {word}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(work, range(jobs)))
    return {name: found[name] for name in names}


def write(path: Path, outcomes: dict[str, Outcome]) -> None:
    path.write_text(json.dumps({name: outcome.to_dict() for name, outcome in outcomes.items()}, indent=1))


def read(path: Path) -> dict[str, Outcome]:
    return {name: Outcome.from_dict(value) for name, value in json.loads(path.read_text()).items()}


if __name__ == "__main__":
    main()
