"""How long a first look takes: `tilesight observe` in a fresh process with empty caches.

Run `python benchmarks/cold_start.py --runs 5`; cases take turns, so that a slow minute hits all of
them. Writes benchmarks/results/cold_start.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cases import INPUTS
from measure import Sample, run_process, summarize, with_empty_caches, write_result

CASES = ("add_relu", "TransformerBlock")
CASES_FILE = Path(__file__).parent / "cases.py"
CALL_CLI = "import sys; from tilesight.cli import main; sys.exit(main())"


def observe(case: str, target: str) -> Sample:
    """One `tilesight observe` of a case; the sample's output is the observation as JSON."""
    command = [
        *(sys.executable, "-c", CALL_CLI, "observe", f"{CASES_FILE}:{case}"),
        *("--inputs", INPUTS[case], "--target", target, "--json", "-"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        return run_process(command, with_empty_caches(folder))


def summarize_case(samples: Sequence[Sample]) -> dict[str, object]:
    """Wall time and peak memory of one case, and how many kernels it saw."""
    kernels = {len(json.loads(sample.output)["kernels"]) for sample in samples}
    return {
        "kernels": sorted(kernels),
        "wall_s": summarize([sample.wall_s for sample in samples]),
        "peak_rss_bytes": summarize([sample.peak_rss_bytes for sample in samples]),
        "samples": [{"wall_s": each.wall_s, "peak_rss_bytes": each.peak_rss_bytes} for each in samples],
    }


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="fresh processes for each case")
    parser.add_argument("--target", default="h200", help="the GPU that is observed for")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(INPUTS), help="cases to observe")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    samples: dict[str, list[Sample]] = {case: [] for case in options.cases}
    for run in range(options.runs):
        for case, taken in samples.items():
            taken.append(observe(case, options.target))
            print(f"run {run + 1}, {case}: {taken[-1].wall_s:.2f} s, {taken[-1].peak_rss_bytes / 1e6:.0f} MB")
    measured = {
        "target": options.target,
        "cases": {case: {"inputs": INPUTS[case], **summarize_case(taken)} for case, taken in samples.items()},
    }
    print(f"written to {write_result('cold_start', arguments, measured)}")


if __name__ == "__main__":
    main(sys.argv[1:])
