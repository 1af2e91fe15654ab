"""The real compilation on a GPU, observed cold, from the cache, and against what is shown without it. Needs an H200."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tilesight.capture.inductor.scrub import scrub

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"

CODE = """
import torch
import torch.nn.functional as F


def softmax_of_product(x, w):
    return F.softmax(torch.relu(x @ w), -1) + 1


def example_inputs():
    return "bf16[512,256],bf16[256,1024]"
"""
SHOWN = ("graph", "kernels", "ledger", "not_fused", "links")


def observed(folder: Path, *options: str, **environment: str) -> dict[str, Any]:
    """What a process of its own tells of the function."""
    (folder / "product.py").write_text(CODE)
    command = [sys.executable, "-m", "tilesight", "observe", str(folder / "product.py:softmax_of_product"), *options]
    own = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), **environment}
    done = subprocess.run([*command, "--json", "-"], env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("options", [(), ("--backward",), ("--dynamic",)])
def test_cold_then_from_the_cache_and_both_in_full(tmp_path: Path, options: tuple[str, ...]) -> None:
    cold, hit = (observed(tmp_path, "--target", "gpu", *options) for _ in range(2))
    assert "miss" in cold["compile"]["cache"] and "hit" in hit["compile"]["cache"]
    assert cold["target"] == hit["target"] == "h200"
    assert any("came from a cache" in note for note in hit["notes"])
    assert [key for key in SHOWN if cold[key] != hit[key]] == []
    assert cold["links"] and cold["not_fused"]
    assert all(kernel["grid"] for kernel in cold["kernels"] if kernel["kind"] == "triton")


@pytest.mark.parametrize("options", [(), ("--backward",), ("--dynamic",)])
def test_the_real_compilation_is_what_is_shown_without_the_gpu(tmp_path: Path, options: tuple[str, ...]) -> None:
    live = observed(tmp_path, "--target", "gpu", *options)
    offline = observed(tmp_path, "--target", "h200", *options, CUDA_VISIBLE_DEVICES="")
    assert list(map(scrub, live["output_code"])) == list(map(scrub, offline["output_code"]))
    assert live["not_fused"] == offline["not_fused"]
    assert live["links"] == offline["links"]
    assert live["ledger"] == offline["ledger"]
