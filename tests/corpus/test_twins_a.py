"""Half of the corpus on the engine: repaired twins give what torch gives, faulty kernels end, counts hold."""

# pyright: basic

from __future__ import annotations

import importlib
import inspect
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from triton.runtime.jit import JITFunction

import tilesight
from tests.corpus.model import FAULT_MARK, Seeded, fault_lines
from tilesight import Case
from tilesight.capture.enable import OutOfBoundsWarning
from tilesight.roads.layouts import LAYOUTS

KINDS = (
    "out_of_bounds",
    "unmasked_undefined",
    "uninitialised_read",
    "never_written",
    "race",
    "overflow",
    "nan_origin",
    "all_masked_row",
)
CASES: dict[str, tuple[Seeded, ...]] = {kind: importlib.import_module(f"tests.corpus.{kind}").CASES for kind in KINDS}
EVERY = [seeded for cases in CASES.values() for seeded in cases]
TOLERANCES = {torch.float32: 2e-5, torch.float16: 1e-3}
"""Relative and absolute, of results near 1; integers are exact."""


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    tilesight.enable()
    yield
    tilesight.disable()


def run(subject: Any) -> torch.Tensor:
    inputs = subject.make_inputs() if isinstance(subject, Case) else ()
    return launch_of(subject)(*inputs)


def reference(seeded: Seeded) -> torch.Tensor:
    if isinstance(seeded.repaired, Case):
        return seeded.repaired.eager(*(x.double() for x in seeded.repaired.make_inputs()))
    assert seeded.expected is not None
    return seeded.expected()


def launch_of(subject: Any) -> Any:
    return subject.hand if isinstance(subject, Case) else subject


def depth(function: Any) -> int:
    """Triton functions on the longest path of calls from a launch: 3 is a kernel, a helper and a helper of it."""
    if isinstance(function, partial):
        return max(depth(part) for part in (function.func, *function.args) if hasattr(part, "__module__"))
    plain = getattr(function, "fn", function)
    if not inspect.isfunction(plain):
        return 0
    named = [plain.__globals__.get(name) for name in plain.__code__.co_names]
    calls = [
        value for value in named if isinstance(value, JITFunction) and value.__module__.startswith("tests.corpus.")
    ]
    return isinstance(function, JITFunction) + max(map(depth, calls), default=0)


@pytest.mark.parametrize("seeded", EVERY, ids=str)
def test_twin_gives_what_torch_gives(seeded: Seeded) -> None:
    result, expected = run(seeded.repaired), reference(seeded)
    tolerance = TOLERANCES.get(result.dtype, 0.0)
    torch.testing.assert_close(result.double(), expected.double().reshape(result.shape), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seeded", [s for s in CASES["overflow"] if isinstance(s.repaired, Case)], ids=str)
def test_twin_of_a_case_takes_any_layout(seeded: Seeded) -> None:
    """What only a layout brings about is another fault than the one that was repaired."""
    assert isinstance(seeded.repaired, Case) and seeded.repaired.hand is not None
    for index, own in enumerate(seeded.repaired.make_inputs()):
        for layout in LAYOUTS:
            if layout.applies(tuple(own.shape)):
                inputs = seeded.repaired.make_inputs()
                inputs[index] = layout.lay_out(inputs[index])
                expected = seeded.repaired.eager(*(x.double() for x in inputs))
                result = seeded.repaired.hand(*inputs)
                tolerance = TOLERANCES.get(result.dtype, 0.0)
                torch.testing.assert_close(result.double(), expected.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seeded", EVERY, ids=str)
def test_faulty_kernel_ends_and_leaves_its_tensors_only_where_that_is_the_fault(seeded: Seeded) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(seeded.faulty)
    assert {w.category for w in caught} == ({OutOfBoundsWarning} if seeded.kind == "out-of-bounds" else set())
    assert result.shape == run(seeded.repaired).shape


@pytest.mark.parametrize("seeded", [s for s in EVERY if s.kind == "nan-origin"], ids=str)
def test_faulty_kernel_makes_what_is_not_a_number(seeded: Seeded) -> None:
    assert not run(seeded.faulty).isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_kind_has_every_shape_and_helpers(kind: str) -> None:
    cases = CASES[kind]
    assert len(cases) >= 8
    assert {s.shape for s in cases} == {"vector", "row", "matmul", "attention", "atomic"}
    assert max(Counter(s.name for s in cases).values()) == 1
    assert {s.kind.replace("-", "_") for s in cases} == {kind}
    assert sum(depth(launch_of(s.faulty)) >= 3 for s in cases) >= 2


@pytest.mark.parametrize("seeded", EVERY, ids=str)
def test_twins_carry_no_mark(seeded: Seeded) -> None:
    assert fault_lines(seeded)
    for kernel in launch_of(seeded.repaired).args:
        if kernel not in seeded.functions and hasattr(kernel, "fn"):
            assert FAULT_MARK not in inspect.getsource(kernel.fn)
