"""The benchmarks' cases run, and what they record is complete, without waiting for the benchmarks."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.contracts.sources import ROOT
from tilesight.capture.inputs import parse_inputs

BENCHMARKS = ROOT / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", load("cases").INPUTS)
def test_a_case_takes_the_inputs_it_names(name: str) -> None:
    """On the meta device: shapes and dtypes are worked out, nothing is computed."""
    cases = load("cases")
    specs = parse_inputs(cases.INPUTS[name])
    with torch.device("meta"):
        subject = getattr(cases, name)
        function = subject() if isinstance(subject, type) else subject
    out = function(*(torch.empty(each.shape, dtype=each.dtype, device="meta") for each in specs))
    assert out.dtype == specs[0].dtype
    assert out.shape in {(), specs[0].shape}


def test_the_block_is_llama_3_8b_s() -> None:
    with torch.device("meta"):
        block = load("cases").TransformerBlock()
    assert sum(parameter.numel() for parameter in block.parameters()) == 218_112_000


def test_a_process_is_measured_in_full() -> None:
    program = "import time; block = bytearray(200_000_000); time.sleep(0.1); print(len(block))"
    sample = load("measure").run_process([sys.executable, "-c", program], os.environ)
    assert sample.output == "200000000\n"
    assert sample.wall_s >= 0.1
    assert sample.peak_rss_bytes >= 200_000_000


def test_a_small_process_is_small_whoever_starts_it() -> None:
    """The tests' own process holds torch: its peak must not pass for the child's."""
    sample = load("measure").run_process([sys.executable, "-S", "-c", ""], os.environ)
    assert sample.peak_rss_bytes < 50_000_000


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"exit code 3 .*no luck"):
        load("measure").run_process(
            [sys.executable, "-c", "import sys; print('no luck', file=sys.stderr); sys.exit(3)"], os.environ
        )


def test_a_result_names_its_circumstances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = load("measure")
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    path = measure.write_result("cold_start", ["--runs", "2"], {"cases": {}})
    record = json.loads(path.read_text())
    assert record["command"] == "python benchmarks/cold_start.py --runs 2"
    assert {"benchmark", "date", "command", "cpu", "cores", "python", "versions", "cases"} == set(record)
    assert record["versions"]["triton"] >= "3.6"


def test_samples_are_summarised_by_their_median() -> None:
    assert load("measure").summarize([3.0, 1.0, 10.0]) == {"median": 3.0, "min": 1.0, "max": 10.0}
