"""Triton's tutorials 01 to 11 on the engine, forward and backward, against torch in float64.

Run `python -m benchmarks.yardsticks.tutorials --path FOLDER`, the folder with the tutorials of the
installed Triton's version (`python/tutorials` of its source). Writes benchmarks/results/tutorials.json.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import torch

from benchmarks.yardsticks.gpu_answers import gpu_is_answered_for
from benchmarks.yardsticks.outcomes import LaunchCounter, Outcome, attempt, show, start_engine, tally, write_outcomes
from benchmarks.yardsticks.tutorial_cases import TUTORIALS, Tutorial, TutorialCase
from benchmarks.yardsticks.tutorial_source import load_tutorial
from tilesight.capture.numerics import Verdict, judge

NOTES = (
    "files of facebookexperimental/triton, tag v3.7.1; their demonstrations and benchmarks are left out when they are"
    " loaded, kernels and launchers are unchanged",
    "the file's own `is_cuda` is answered with True; torch.cuda's queries with an H200's figures",
    "device='cuda' means the CPU; the first configuration of an autotuned kernel is taken",
    "reference: torch in float64; error = |output − reference| / (|reference| + rms(reference))",
)


def run_tutorial(folder: Path, tutorial: Tutorial, counter: LaunchCounter, limit_s: float) -> Iterator[Outcome]:
    """The outcomes of one tutorial's cases; a file that does not load fails all of them."""
    loaded: list[ModuleType] = []

    def judge_case(case: TutorialCase) -> Verdict:
        if not loaded:
            answers = {"is_cuda": lambda: True, **tutorial.answers}
            loaded.append(load_tutorial(folder / tutorial.file, tutorial.roots, answers))
        torch.manual_seed(20)
        verdict = judge(*case.check(loaded[0]))
        tolerance = verdict.tolerance if case.tolerance is None else case.tolerance
        return Verdict(verdict.max_error <= tolerance, verdict.max_error, tolerance)

    name = tutorial.file.removesuffix(".py")
    for case in tutorial.cases:
        run = functools.partial(judge_case, case)
        yield attempt(name, case.direction, case.dtype, run, counter, limit_s, case=case.name)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, required=True, help="folder with 01-vector-add.py and its neighbours")
    parser.add_argument("--select", default="", help="only files whose name contains this; writes nothing")
    parser.add_argument("--limit", type=float, default=120, help="seconds a case may take")
    options = parser.parse_args(arguments)
    _, counter = start_engine()
    outcomes: list[Outcome] = []
    with gpu_is_answered_for(says_device=False):
        for tutorial in TUTORIALS:
            if options.select in tutorial.file:
                for outcome in run_tutorial(options.path, tutorial, counter, options.limit):
                    print(show(outcome), flush=True)
                    outcomes.append(outcome)
    print({key: value for key, value in tally(outcomes).items() if key != "reasons"})
    if not options.select:
        print(f"written to {write_outcomes('tutorials', ['--path', 'FOLDER'], [], NOTES, outcomes)}")


if __name__ == "__main__":
    main(sys.argv[1:])
