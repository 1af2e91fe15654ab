"""The other half of the corpus on the engine: repaired twins give what torch gives, and faults do their harm."""

# pyright: basic

from __future__ import annotations

import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

import tilesight
from tests.corpus.model import FAULT_MARK, Seeded, fault_lines
from tilesight import Case, TilesightError

KINDS = ("precision", "non_determinism", "grid", "stride", "alias", "autotune", "unlaunchable", "contract")
CASES: dict[str, tuple[Seeded, ...]] = {kind: importlib.import_module(f"tests.corpus.{kind}").CASES for kind in KINDS}
EVERY = [seeded for cases in CASES.values() for seeded in cases]
TOLERANCE = 1e-4
"""Relative and absolute, of float32 results near 1 and sums of up to 10,000 terms; integers are exact."""
OF_HALF = {"precision/online softmax"}
"""Weights are rounded to float16 for the tensor cores in the twin too."""
ENGINE_REFUSES = {
    "unlaunchable/rows on y",
    "unlaunchable/rows on z through helpers",
    "unlaunchable/rows of counts on y",
    "unlaunchable/hundred lanes through helpers",
    "unlaunchable/block of a whole row",
    "unlaunchable/product over 8",
    "unlaunchable/head of 4",
}
ONE_ORDER_IS_HARMLESS = {
    "alias/shift within a buffer",
    "alias/filter in place through helpers",
    "alias/transpose in place",
    "alias/output over values",
    "alias/sums spread in place",
}
"""Overlaps of different programs: a whole grid at once reads before it writes."""


def of_kind(kind: str) -> Any:
    return pytest.mark.parametrize("seeded", [seeded for seeded in EVERY if seeded.kind == kind], ids=str)


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    tilesight.enable()
    yield
    tilesight.disable()


def run(subject: Any, lay_out: Callable[[torch.Tensor], torch.Tensor] | None = None) -> torch.Tensor:
    if not isinstance(subject, Case):
        return subject()
    assert subject.hand is not None
    inputs = subject.make_inputs()
    return subject.hand(*(map(lay_out, inputs) if lay_out else inputs))


def reference(subject: Case | Any) -> torch.Tensor:
    if isinstance(subject, Case):
        return subject.eager(*(x.double() if x.is_floating_point() else x for x in subject.make_inputs()))
    return subject()


def expected_of(seeded: Seeded) -> torch.Tensor:
    return reference(seeded.repaired if isinstance(seeded.repaired, Case) else seeded.expected)


def error_of(result: torch.Tensor, expected: torch.Tensor) -> float:
    return float((result.double() - expected.double().reshape(result.shape)).abs().max())


def assert_right(result: torch.Tensor, expected: torch.Tensor, tolerance: float = TOLERANCE) -> None:
    expected = expected.double().reshape(result.shape)
    tolerance = tolerance if result.is_floating_point() else 0.0
    torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seeded", EVERY, ids=str)
def test_twin_gives_what_torch_gives(seeded: Seeded) -> None:
    assert_right(run(seeded.repaired), expected_of(seeded), 1e-3 if str(seeded) in OF_HALF else TOLERANCE)


@pytest.mark.parametrize("seeded", EVERY, ids=str)
def test_faulty_kernel_ends_or_is_refused(seeded: Seeded) -> None:
    if str(seeded) in ENGINE_REFUSES:
        with pytest.raises((CompilationError, TilesightError)):
            run(seeded.faulty)
    else:
        assert run(seeded.faulty).shape == run(seeded.repaired).shape


@of_kind("precision")
def test_narrow_sum_is_worse_than_its_twin(seeded: Seeded) -> None:
    expected = expected_of(seeded)
    assert error_of(run(seeded.faulty), expected) > 8 * error_of(run(seeded.repaired), expected)


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.mT.contiguous().mT if x.ndim > 1 else x


def _first_transposed(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).contiguous().transpose(0, 1) if x.ndim > 1 else x


def _spaced(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((x, torch.full_like(x, 3)), dim=-1).flatten(-2)[..., ::2]


def _padded(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((x, torch.full_like(x, 3)), dim=-1)[..., : x.shape[-1]]


LAYOUTS = (_transposed, _first_transposed, _spaced, _padded)


@of_kind("stride")
@pytest.mark.parametrize("lay_out", LAYOUTS, ids=lambda function: function.__name__.strip("_"))
def test_twin_takes_any_layout(seeded: Seeded, lay_out: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert_right(run(seeded.repaired, lay_out), expected_of(seeded))


def _each_laid_out(case: Case) -> Iterator[torch.Tensor]:
    """What the launcher makes of one input at a time in another layout."""
    assert case.hand is not None
    count = len(case.make_inputs())
    for index in range(count):
        for lay_out in LAYOUTS:
            inputs = case.make_inputs()
            inputs[index] = lay_out(inputs[index])
            yield case.hand(*inputs)


@of_kind("stride")
@pytest.mark.filterwarnings("ignore::tilesight.OutOfBoundsWarning")
def test_faulty_launcher_is_right_on_contiguous_inputs_alone(seeded: Seeded) -> None:
    assert isinstance(seeded.faulty, Case)
    expected = expected_of(seeded)
    assert_right(run(seeded.faulty), expected)
    assert any(not error_of(result, expected) < TOLERANCE for result in _each_laid_out(seeded.faulty))


@of_kind("alias")
def test_overlap_changes_the_result(seeded: Seeded) -> None:
    is_same = error_of(run(seeded.faulty), expected_of(seeded)) < TOLERANCE
    assert is_same == (str(seeded) in ONE_ORDER_IS_HARMLESS)


@of_kind("contract")
def test_work_for_nothing_changes_no_number(seeded: Seeded) -> None:
    assert_right(run(seeded.faulty), expected_of(seeded))


@pytest.mark.parametrize("kind", KINDS)
def test_kind_has_every_shape_and_helpers(kind: str) -> None:
    cases = CASES[kind]
    assert len(cases) >= 8
    assert {s.shape for s in cases} == {"vector", "row", "matmul", "attention", "atomic"}
    assert max(Counter(s.name for s in cases).values()) == 1
    assert {s.kind.replace("-", "_") for s in cases} == {kind}
    assert sum(depth(launch_of(s.faulty)) >= 3 for s in cases) >= 2


def launch_of(subject: Any) -> Any:
    return subject.hand if isinstance(subject, Case) else subject


def depth(function: Any) -> int:
    """Triton functions on the longest path of calls from a launch: 3 is a kernel, a helper and a helper of it."""
    if isinstance(function, partial):
        return max(depth(part) for part in (function.func, *function.args))
    is_kernel = isinstance(function, JITFunction)
    plain = function
    while hasattr(plain, "fn"):
        is_kernel, plain = is_kernel or isinstance(plain.fn, JITFunction), plain.fn
    if not inspect.isfunction(plain):
        return 0
    named = [plain.__globals__.get(name) for name in plain.__code__.co_names]
    ours = [value for value in named if getattr(value, "__module__", "").startswith("tests.corpus.")]
    return is_kernel + max((depth(value) for value in ours if value is not function), default=0)


@pytest.mark.parametrize("seeded", EVERY, ids=str)
def test_faults_are_marked_and_twins_are_not(seeded: Seeded) -> None:
    assert fault_lines(seeded)
    launch = launch_of(seeded.repaired)
    kernels = launch.args if isinstance(launch, partial) else (launch,)
    for kernel in kernels:
        plain = kernel
        while hasattr(plain, "fn"):
            plain = plain.fn
        if inspect.isfunction(plain) and plain not in [_source(function) for function in seeded.functions]:
            assert FAULT_MARK not in inspect.getsource(plain)


def _source(function: Any) -> Any:
    while hasattr(function, "fn"):
        function = function.fn
    return function
