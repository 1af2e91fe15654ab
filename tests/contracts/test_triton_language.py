"""The yardstick of Triton's language tests: what is run, how outcomes are read, how reasons are told apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.yardsticks.triton_language import compare, only_one_passes
from benchmarks.yardsticks.triton_language_reasons import TestOutcome, read_outcomes, reasons_of

TESTS = """
import pytest
import torch
import triton
import triton.language as tl

@triton.jit
def doubling(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) * 2)

@pytest.mark.parametrize("n", range(10))
def test_doubling(n):
    x = torch.tensor([float(n)])
    doubling[(1,)](x)
    assert x.item() == 2 * n

def test_wrong():
    raise ValueError("outer") from KeyError("the cause 17")

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass
"""


def test_the_plugin_runs_kernels_on_the_engine_and_records_every_outcome(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    outcomes = tmp_path / "outcomes.jsonl"
    plugin = ["-p", "benchmarks.yardsticks.engine_plugin", "--on-engine", "--outcomes", str(outcomes), "--sample", "3"]
    shape = ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-q"]
    root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, f"{root}/src"]), "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-m", "pytest", *shape, *plugin, str(tmp_path)]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    found = read_outcomes(outcomes)
    assert {test.split("::")[1]: outcome.outcome for test, outcome in found.items()} == {
        "test_doubling[0]": "passed",
        "test_doubling[3]": "passed",
        "test_doubling[6]": "passed",
        "test_wrong": "failed",
        "test_skipped": "skipped",
    }
    assert found["test_it.py::test_wrong"].text == "KeyError: 'the cause 17'"
    assert found["test_it.py::test_skipped"].text == "Skipped: not today"


def test_reasons_group_what_did_not_pass() -> None:
    outcomes = {
        "f.py::a": TestOutcome("passed"),
        "f.py::b": TestOutcome("failed", "KeyError: \"Unknown key: 'ttgir'\""),
        "f.py::c": TestOutcome("failed", "KeyError: \"Unknown key: 'ptx'\""),
        "f.py::d": TestOutcome("failed", "ValueError: 17 of 20 in /home/someone/f.py"),
        "f.py::e": TestOutcome("skipped", "Skipped: no"),
    }
    found = [(reason.outcome, reason.text, reason.tests) for reason in reasons_of(outcomes)]
    assert found == [
        ("failed", "reads TTGIR or what follows: the engine stops at TTIR", ("f.py::b", "f.py::c")),
        ("failed", "ValueError: # of # in f.py", ("f.py::d",)),
        ("skipped", "Skipped: no", ("f.py::e",)),
    ]
    assert reasons_of(outcomes)[1].example == "ValueError: 17 of 20 in f.py"


def test_sides_are_compared_test_by_test() -> None:
    engine = {"f.py::a": TestOutcome("passed"), "f.py::b": TestOutcome("failed", "E: no")}
    interpreter = {
        "f.py::a": TestOutcome("skipped"),
        "f.py::b": TestOutcome("passed"),
        "f.py::c": TestOutcome("passed"),
    }
    assert only_one_passes(interpreter, engine) == ["f.py::b", "f.py::c"]
    measured = compare({"engine": engine, "interpreter": interpreter})
    assert measured["totals"] == {"engine": {"failed": 1, "passed": 1}, "interpreter": {"passed": 2, "skipped": 1}}
    assert measured["interpreter_only"] == {"f.py::b": "E: no", "f.py::c": "not collected"}
    assert measured["engine_only"] == 1


def test_a_run_without_tests_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    path.write_text("")
    with pytest.raises(ValueError, match="no test was run"):
        read_outcomes(path)
    path.write_text(json.dumps({"test": "f.py::a", "outcome": "passed"}) + "\n")
    assert read_outcomes(path)["f.py::a"].passed
