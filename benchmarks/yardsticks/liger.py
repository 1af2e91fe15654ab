"""Liger-Kernel's operators on the engine, forward and backward, against float64 torch.

Run `python -m benchmarks.yardsticks.liger`, with `liger-kernel` installed. Every operator of
`liger_kernel.ops` runs on CPU tensors of small, odd shapes in float32 and bfloat16. Writes
benchmarks/results/liger.json.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from unittest import mock

import torch

from benchmarks.yardsticks import liger_cases, liger_losses
from benchmarks.yardsticks.gpu_answers import gpu_is_answered_for
from benchmarks.yardsticks.operator_case import OperatorCase, run_case
from benchmarks.yardsticks.outcomes import Outcome, show, start_engine, tally, write_outcomes

DTYPES = (torch.float32, torch.bfloat16)
FAMILIES = (
    liger_cases.normalisation_cases,
    liger_cases.activation_cases,
    liger_cases.rotation_cases,
    liger_cases.attention_cases,
    liger_losses.cross_entropy_cases,
    liger_losses.distance_cases,
    liger_losses.policy_cases,
    liger_losses.hyper_connection_cases,
    liger_losses.layer_cases,
)
NOTES = (
    "the kernels are the package's own, unchanged, called through its autograd functions on CPU tensors",
    "reference: the operator's mathematics in torch, float64; error = |output − reference| / (|reference| + rms)",
    "torch.cuda's queries are answered with an H200's figures and CPU tensors pass for CUDA tensors",
    "operators with float32 dot products are judged at 2e-3, or 4e-3 for two in a row: their operands are tf32",
)


def all_cases(ops: ModuleType) -> list[OperatorCase]:
    return [case for family in FAMILIES for case in family(ops)]


def run_all(select: str, limit_s: float) -> Iterator[Outcome]:
    """Every operator whose name contains `select`, in every dtype, shown as it ends."""
    _, counter = start_engine()
    ops = importlib.import_module("liger_kernel.ops")
    # The backward pass of DyT sizes its grid by the GPU's multiprocessors and knows no CPU.
    dyt = importlib.import_module("liger_kernel.ops.dyt")
    with gpu_is_answered_for(says_device=False), mock.patch.object(dyt, "infer_device", lambda: "cuda"):
        for case, dtype in itertools.product(all_cases(ops), DTYPES):
            if select in case.name:
                for outcome in run_case(case, dtype, counter, limit_s):
                    print(show(outcome), flush=True)
                    yield outcome


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--select", default="", help="only operators whose name contains this; writes nothing")
    parser.add_argument("--limit", type=float, default=60, help="seconds an operator may take in one direction")
    options = parser.parse_args(arguments)
    outcomes = list(run_all(options.select, options.limit))
    print({key: value for key, value in tally(outcomes).items() if key != "reasons"})
    if not options.select:
        print(f"written to {write_outcomes('liger', arguments, ['liger-kernel'], NOTES, outcomes)}")


if __name__ == "__main__":
    main(sys.argv[1:])
