"""The real compilation on this machine's processor: cold, warm and from a cache, shown in full each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import tilesight
from tilesight.errors import InputError
from tilesight.roads.model import Observation

CODE = """
import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

    def forward(self, x):
        return F.softmax(self.down(torch.relu(self.up(x))), -1) + x


def example_inputs():
    return "f32[32,64]"
"""


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The same module observed by two processes that share a cache: the first finds it empty, the second full."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "block.py").write_text(CODE)
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    found: list[dict[str, Any]] = []
    for _ in range(2):
        command = [sys.executable, "-m", "tilesight", "observe", str(folder / "block.py:Block"), "--target", "cpu"]
        done = subprocess.run(
            [*command, "--json", "-"], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    return found


def test_the_first_process_compiles_and_the_second_one_hits_the_cache(observed: list[dict[str, Any]]) -> None:
    cold, hit = observed
    assert "miss 1x in Inductor's FX graph cache" in cold["compile"]["cache"]
    assert "hit 1x in Inductor's FX graph cache" in hit["compile"]["cache"]
    for seen in observed:
        assert seen["target"] == "cpu"
        assert "Dynamo's guards held" in seen["compile"]["cache"]
        assert 0 < seen["compile"]["warm_s"] < seen["compile"]["cold_s"]
    assert any("came from a cache" in note for note in hit["notes"])
    assert not any("came from a cache" in note for note in cold["notes"])


def test_a_graph_from_the_cache_is_shown_in_full(observed: list[dict[str, Any]]) -> None:
    cold, hit = observed
    assert {kernel["kind"] for kernel in cold["kernels"]} == {"cpp", "extern"}
    for key in ("graph", "kernels", "ledger", "not_fused", "links"):
        assert cold[key] == hit[key], key
    assert cold["links"] and cold["not_fused"] and cold["graph"]["fx"]


def test_lines_of_the_cpp_source_are_linked(observed: list[dict[str, Any]]) -> None:
    links = {link["id"]: link for link in observed[0]["links"]}
    number, kernel = next((n, k) for n, k in enumerate(observed[0]["kernels"]) if "exp()" in k["source"])
    lines = [n for n, text in enumerate(kernel["source"].split("\n"), 1) if ".exp()" in text]
    assert lines
    for line in lines:
        assert any(each.startswith("aten:exp") for each in links[f"source:{number}.{line}"]["before"])


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))


def scaled_exp(x: Tensor, w: Tensor) -> Tensor:
    return torch.exp(x) * w


@pytest.mark.usefixtures("own_cache")
def test_the_ledger_of_the_real_compilation() -> None:
    n = 1 << 16
    seen: Observation = tilesight.observe(scaled_exp, f"f32[{n}],f32[{n}]", target="cpu", backward=True)
    assert [kernel.graph for kernel in seen.kernels] == ["forward", "backward"]
    assert seen.ledger.compiled_bytes == (3 + 5) * 4 * n
    assert seen.ledger.ideal_bytes == (3 + 3) * 4 * n
    assert seen.ledger.eager_bytes is not None and seen.ledger.eager_bytes > seen.ledger.compiled_bytes
    assert all(each.predicted_us is None for each in seen.not_fused)


@pytest.mark.usefixtures("own_cache")
def test_weights_are_no_round_trips_of_eager_mode() -> None:
    module = torch.nn.Linear(64, 32)
    seen = tilesight.observe(module, "f32[16,64]", target="cpu")
    assert seen.ledger.eager_bytes == 4 * (16 * 64 + 64 * 32 + 32 + 16 * 32)
    assert seen.ledger.eager_round_trips == ()


@pytest.mark.usefixtures("own_cache")
def test_graphs_on_either_side_of_a_break_come_in_order() -> None:
    def broken(x: Tensor) -> Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return F.gelu(y)

    seen = tilesight.observe(broken, "f32[64]", target="cpu")
    assert len(seen.breaks) == 1 and len(seen.output_code) == 2
    assert [kernel.name.split("_")[2] for kernel in seen.kernels] == ["relu", "gelu"]


def test_without_a_gpu_the_real_one_cannot_be_asked() -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    with pytest.raises(InputError, match="no GPU is here"):
        tilesight.observe(scaled_exp, "f32[8],f32[8]", target="gpu")


def test_a_module_without_weights_cannot_be_run() -> None:
    with torch.device("meta"):
        module = torch.nn.Linear(8, 8)
    with pytest.raises(InputError, match="no weights"):
        tilesight.observe(module, "f32[4,8]", target="cpu")
