"""The real models are those that were published, and small ones of their kind are observed whole.

Most come from `transformers`, which the `models` extra installs; without it they are skipped, and say so.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

import tilesight
from benchmarks.models.catalogue import MODELS
from tests.contracts.sources import ROOT
from tilesight.ledger.model import RoundTrip

WRITTEN_OUT = ("unet", "dlrm")
"""Needs torch alone."""

SMALL: dict[tuple[str, bool], tuple[int, int]] = {
    ("unet", False): (1, 12),
    ("unet", True): (2, 30),
    ("dlrm", False): (1, 10),
    ("dlrm", True): (2, 20),
    ("gpt2", True): (2, 40),
    ("qwen", False): (1, 25),
    ("mixtral", False): (1, 30),
    ("resnet", True): (2, 40),
}
"""(model, with gradients) → (graphs, fewest kernels): a lower bound that needs every layer to be there."""


def needs(name: str) -> pytest.MarkDecorator:
    is_absent = name not in WRITTEN_OUT and find_spec("transformers") is None
    return pytest.mark.skipif(is_absent, reason="transformers is not installed (pip install 'tilesight[models]')")


def benchmark() -> ModuleType:
    folder = str(ROOT / "benchmarks")
    if folder not in sys.path:
        sys.path.append(folder)
    import real_models  # pyright: ignore[reportMissingImports]

    return real_models


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in MODELS])
def test_a_model_has_as_many_weights_as_the_published_one(name: str) -> None:
    step = MODELS[name].step()
    assert all(parameter.is_meta for parameter in step.parameters())
    assert sum(parameter.numel() for parameter in step.parameters()) == MODELS[name].parameters


@pytest.mark.parametrize(
    ("name", "is_trained"), [pytest.param(*key, marks=needs(key[0]), id=f"{key[0]}-{key[1]}") for key in SMALL]
)
def test_a_small_one_is_observed_whole(name: str, is_trained: bool) -> None:
    changes, inputs = MODELS[name].small
    seen = tilesight.observe(MODELS[name].step(**changes), inputs, backward=is_trained)
    graphs, fewest_kernels = SMALL[name, is_trained]
    ledger = seen.ledger
    assert not seen.failures
    assert not seen.breaks
    assert len(seen.output_code) == graphs
    assert len(seen.kernels) >= fewest_kernels
    assert all(kernel.source and kernel.grid for kernel in seen.kernels if kernel.kind == "triton")
    assert ledger.eager_bytes is not None and ledger.compiled_bytes is not None and ledger.ideal_bytes is not None
    assert 0 < ledger.ideal_bytes <= ledger.compiled_bytes
    assert ledger.round_trips


def test_round_trips_of_the_same_kernels_are_taken_together() -> None:
    trips = [
        RoundTrip("a", 10, "mm", ("silu",)),
        RoundTrip("b", 10, "mm", ("silu",)),
        RoundTrip("c", 15, "mm", ("add",)),
        RoundTrip("d", 1, "add", ("mm",)),
        RoundTrip("e", 2, "add", ("mm",)),
    ]
    found = [(each["tensor"], each["bytes"], each["times"]) for each in benchmark().dearest(trips)]
    assert found == [("a", 10, 2), ("c", 15, 1), ("e", 2, 1)]


def test_a_model_that_fails_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    real_models = benchmark()

    def fail(*_: Any) -> None:
        raise RuntimeError("exit code 1 of python: Traceback\nValueError: no luck")

    monkeypatch.setattr(real_models, "run_process", fail)
    row = real_models.measure("unet", "inference", "h200")
    assert row["failed"] == "ValueError: no luck"
    assert real_models.show("unet", "inference", row) == "unet, inference: failed: ValueError: no luck"
