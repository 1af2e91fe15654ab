"""`tilesight run` and `trace` on a script that says device="cuda", on a machine without a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from tilesight.cli.app import app

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="lent only where there is no GPU")

SCRIPT = """
import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * 2, mask=mask)


def launch():
    x = torch.ones(100, device="cuda")
    double_kernel[(2,)](x, 100, BLOCK=64)
    assert x.device.type == "cuda"
    return x


if __name__ == "__main__":
    print(launch().sum().item(), torch.cuda.get_device_name())
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "doubled.py"
    file.write_text(SCRIPT)
    return file


def test_run_says_once_that_the_tensors_live_on_the_cpu(script: Path) -> None:
    result = CliRunner().invoke(app, ["run", "--target", "a100", str(script)])
    assert result.exit_code == 0
    assert result.stdout.startswith("200.0 NVIDIA A100")
    assert result.stderr.count("tilesight: no GPU here") == 1
    assert "its tensors live on the CPU" in result.stderr


def test_the_note_keeps_out_of_the_json(script: Path) -> None:
    result = CliRunner().invoke(app, ["run", "--json", "-", str(script)])
    (launch,) = json.loads(result.stdout)["launches"]
    assert (launch["kernel"], launch["programs"]) == ("double_kernel", 2)
    assert [(row["lanes"], row["masked_lanes"], row["bytes"]) for row in launch["stores"]] == [(128, 28, 400)]
    assert "no GPU here" in result.stderr


def test_trace_lends_it_too(script: Path) -> None:
    result = CliRunner().invoke(app, ["trace", f"{script}:launch", "--json", "-"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kernel"] == "double_kernel"
    assert "no GPU here" in result.stderr


def test_a_script_that_stays_on_the_cpu_is_told_nothing(tmp_path: Path) -> None:
    file = tmp_path / "plain.py"
    file.write_text("import torch\nprint(torch.ones(3).sum().item())\n")
    result = CliRunner().invoke(app, ["run", str(file)])
    assert (result.exit_code, result.stderr) == (0, "")
