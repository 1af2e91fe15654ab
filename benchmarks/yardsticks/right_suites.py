"""The suites of kernels that are right, each as cases that launch and return what their caller gets."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import os
import runpy
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.yardsticks import inductor_operators, liger
from benchmarks.yardsticks.flag_gems_fused import fused_cases
from benchmarks.yardsticks.gpu_answers import gpu_is_answered_for
from benchmarks.yardsticks.operator_case import SEED, OperatorCase, copy_leaves, gradients
from benchmarks.yardsticks.operator_checks import choose_samples, run_sample
from benchmarks.yardsticks.operator_samples import AtenCall, copy_tensors, record_calls
from benchmarks.yardsticks.right_case import USUAL_GPU, RightCase
from benchmarks.yardsticks.tutorial_cases import TUTORIALS, Tutorial, TutorialCase
from benchmarks.yardsticks.tutorial_source import load_tutorial
from tilesight.capture.enable import enable
from tilesight.capture.inductor.on_engine import CompiledOnEngine
from tilesight.capture.numerics import flatten
from tilesight.capture.tensors import dtype_name
from tilesight.targets import target

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
FOR_BLACKWELL = {"10-block-scaled-matmul.py"}
"""Its own check lets compute capability 10 and 11 through."""

SAMPLES = 1
"""Of an operator of torch's database: its largest of the first ones."""


@dataclass(frozen=True)
class Asked:
    """What the command line says of a suite.

    Args:
        folder: with the tutorials
        functions: how many of torch's operators, evenly spaced over the database; 0 is all
    """

    folder: Path | None
    functions: int


Suite = Callable[[Asked], contextlib.AbstractContextManager[Iterable[RightCase]]]


@contextlib.contextmanager
def tutorials(asked: Asked) -> Generator[Iterable[RightCase]]:
    """Triton's own, 01 to 11."""
    assert asked.folder is not None, "--path names the folder with the tutorials"
    with gpu_is_answered_for(says_device=False):
        yield [
            RightCase(
                f"{tutorial.file.removesuffix('.py')} {case.name} {case.direction} {case.dtype}",
                functools.partial(_run_tutorial, asked.folder, tutorial, case),
                "b200" if tutorial.file in FOR_BLACKWELL else USUAL_GPU,
            )
            for tutorial in TUTORIALS
            for case in tutorial.cases
        ]


def _run_tutorial(folder: Path, tutorial: Tutorial, case: TutorialCase) -> Any:
    answers = {"is_cuda": lambda: True, **tutorial.answers}
    module = load_tutorial(folder / tutorial.file, tutorial.roots, answers)
    torch.manual_seed(SEED)
    return flatten(case.check(module)[0])


@contextlib.contextmanager
def liger_kernels(asked: Asked) -> Generator[Iterable[RightCase]]:
    """Liger-Kernel's operators, forward and backward, in float32 and bfloat16."""
    ops = importlib.import_module("liger_kernel.ops")
    dyt = importlib.import_module("liger_kernel.ops.dyt")
    with gpu_is_answered_for(says_device=False), mock.patch.object(dyt, "infer_device", lambda: "cuda"):
        yield [
            RightCase(f"{case.name} {dtype_name(dtype)}", functools.partial(_run_operator, case, dtype))
            for case, dtype in itertools.product(liger.all_cases(ops), liger.DTYPES)
        ]


def _run_operator(case: OperatorCase, dtype: torch.dtype) -> list[torch.Tensor]:
    """Outputs and gradients; the inputs too, as some operators write over them."""
    torch.manual_seed(SEED)
    arguments, leaves = copy_leaves(case.inputs(dtype), case.constants, None)
    outputs = flatten(case.run(*arguments))
    found: list[torch.Tensor] = []
    trained = [each for each in outputs if each.requires_grad]
    if case.has_backward and trained:
        found = gradients(trained, leaves, [torch.randn(each.shape).to(each.dtype) for each in trained])
    return [each.detach() for each in (*outputs, *found, *flatten(arguments))]


@contextlib.contextmanager
def inductor(asked: Asked) -> Generator[Iterable[RightCase]]:
    """What torch.compile generates for the functions of torch's operator database, forward and backward."""
    torch.set_num_threads(1)
    enable(compile_for="h200")
    database = inductor_operators.operators()
    chosen = range(len(database))
    if asked.functions:
        chosen = [place * len(database) // asked.functions for place in range(asked.functions)]
    yield [
        RightCase(
            f"{database[index].formatted_name} {dtype}",
            functools.partial(_run_compiled, database[index], getattr(torch, dtype)),
        )
        for index in chosen
        for dtype in inductor_operators.DTYPES
        if getattr(torch, dtype) in database[index].dtypes
    ]


def _run_compiled(operator: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    torch._dynamo.reset()
    returned: list[torch.Tensor] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in choose_samples(operator, dtype, SAMPLES):
            compiled = CompiledOnEngine(operator.op, target("h200"), mode=None, dynamic=False)
            results = run_sample(compiled, sample)
            returned += [*results.outputs, *results.gradients]
    return returned


@contextlib.contextmanager
def flag_gems_kernels(asked: Asked) -> Generator[Iterable[RightCase]]:
    """FlagGems' operators on the calls that torch's operator database leads to, and its fused ones."""
    # The database needs a package that only those who run it have.
    from benchmarks.yardsticks import flag_gems

    os.environ["GEMS_VENDOR"] = "nvidia"
    with gpu_is_answered_for():
        package = importlib.import_module("flag_gems")
    entry = importlib.import_module("flag_gems.utils.libentry")
    with warnings.catch_warnings(), mock.patch.object(entry, "minor_version", flag_gems.NEWEST_KNOWN_MINOR):
        warnings.simplefilter("ignore")
        functions = {each[0]: each[1] for each in package._FULL_CONFIG}
        calls = record_calls(flag_gems.op_db, functions, flag_gems.DTYPES, 1)
        registered = [
            RightCase(
                f"{call.key} {dtype_name(call.dtype)}", functools.partial(_run_registered, functions[call.key], call)
            )
            for call in calls
            if call.key not in flag_gems.RANDOM
        ]
        fused = [
            RightCase(f"{case.name} {dtype_name(dtype)}", functools.partial(_run_fused, case, dtype))
            for case, dtype in itertools.product(fused_cases(package), flag_gems.DTYPES[:2])
        ]
        yield [*registered, *fused]


def _run_registered(function: Any, call: AtenCall) -> list[torch.Tensor]:
    args, kwargs = copy_tensors(call.args), copy_tensors(call.kwargs)
    from benchmarks.yardsticks import flag_gems

    with torch.no_grad(), gpu_is_answered_for():
        return flatten(flag_gems.as_tensors(function(*args, **kwargs)))


def _run_fused(case: OperatorCase, dtype: torch.dtype) -> list[torch.Tensor]:
    with gpu_is_answered_for():
        return _run_operator(case, dtype)


@contextlib.contextmanager
def lessons(asked: Asked) -> Generator[Iterable[RightCase]]:
    """The scripts of lessons/, each run as `python SCRIPT` would on a machine without a GPU."""
    enable(compile_for="h200")
    yield [RightCase(path.name, functools.partial(_run_script, path)) for path in sorted(LESSONS.glob("0*.py"))]


def _run_script(path: Path) -> Mapping[str, Any]:
    arguments, paths = [str(path)], [str(path.parent), *sys.path]
    with mock.patch.object(sys, "argv", arguments), mock.patch.object(sys, "path", paths):
        return runpy.run_path(str(path), run_name="__main__")


SUITES: Mapping[str, Suite] = {
    "tutorials": tutorials,
    "inductor": inductor,
    "liger": liger_kernels,
    "flag_gems": flag_gems_kernels,
    "lessons": lessons,
}
