"""The kernels' tables from a record made by hand, and from one that the bench wrote on this machine's CPU."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.contracts.sources import ROOT

GB = 10**9


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/kernel_tables.py, its results in an empty folder."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    module = importlib.import_module("kernel_tables")
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def provider(device_us: float, host_us: float = 10.0, peak_bytes: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "ok": True, "checks": {"as timed": True}, "reason": "", "device_us": [device_us] * 3, "host_us": [host_us],
        "peak_bytes": peak_bytes, **more,
    }  # fmt: skip


def case(operator: str, shape: list[int], ideal_bytes: int, flops: int | None = None, **providers: Any) -> Any:
    return {
        "operator": operator, "shape": shape, "dtype": "bfloat16", "ideal_bytes": ideal_bytes, "flops": flops,
        "session": 0, "providers": providers,
    }  # fmt: skip


def record(*cases: Any) -> dict[str, Any]:
    return {
        "date": "2026-01-02T03:04:05+00:00", "command": "python benchmarks/kernels_on_gpu.py", "gpu": "NVIDIA H200",
        "versions": {"torch": "2.13.0", "triton": "3.7.1", "liger-kernel": "0.8.5"},
        "sessions": [{"copy_gb_per_s": 4000.0}], "failed": [], "cases": list(cases),
    }  # fmt: skip


SOFTMAX = case(
    "softmax", [32768, 4096], GB, eager=provider(1000), compiled=provider(500), hand=provider(250),
    liger=provider(251, checks={"as timed": True, "odd sizes": False}),
)  # fmt: skip
"""1,000, 2,000 and 4,000 GB/s."""


def test_nothing_is_said_of_what_was_not_measured(tables: ModuleType) -> None:
    assert tables.headline("en") == tables.goals() == tables.every_case() == "Not measured on a GPU yet."
    assert tables.headline("zh") == "尚未在 GPU 上测量。"


def test_the_headline(tables: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "kernels_h200.json").write_text(json.dumps(record(SOFTMAX)))
    lines = tables.headline().splitlines()
    assert lines[2] == "| softmax 32,768 × 4,096, GB/s | 1,000 | 2,000 | 3,984 (Liger) | **4,000** | 100% |"
    assert lines[-1].startswith(
        "2026-01-02, NVIDIA H200, torch 2.13.0, Triton 3.7.1, liger-kernel 0.8.5; a copy moves 4,"
    )


def test_a_table_has_shares_and_reasons(tables: ModuleType, tmp_path: Path) -> None:
    refused = {"ok": None, "checks": {}, "reason": "ValueError: too | long"}
    long = case("softmax", [1024, 131072], GB, eager=provider(1000), hand=provider(2000), liger=refused)
    failed = {"operator": "sum", "shape": [8, 16], "reason": "OutOfMemoryError: no"}
    (tmp_path / "kernels_h200.json").write_text(json.dumps({**record(SOFTMAX, long), "failed": [failed]}))
    text = tables.every_case()
    assert "| 32,768 × 4,096 | 1,000 | 2,000 | **4,000** | 3,984 | 100% | 100% |" in text
    assert "| 1,024 × 131,072 | **1,000** | – | 500 | – | 50% | 12% |" in text
    assert tables.no_times().splitlines()[2:] == [
        "| sum 8 × 16 | all | OutOfMemoryError: no |",
        "| softmax 32,768 × 4,096 | Liger | wrong numbers at odd sizes |",
        "| softmax 1,024 × 131,072 | Liger | ValueError: too / long |",
    ]


def test_goals_name_the_least(tables: ModuleType, tmp_path: Path) -> None:
    slow = case("softmax", [1024, 131072], GB, eager=provider(1000), hand=provider(500), quack=provider(250))
    both = case(
        "linear_cross_entropy_both", [8, 16, 32], GB, 6 * 10**12, eager=provider(9, peak_bytes=1000),
        hand=provider(1.0, peak_bytes=100),
    )  # fmt: skip
    products = case("linear_cross_entropy_products", [8, 16, 32], GB, 6 * 10**12, eager=provider(0.5))
    small = case("add_relu", [100_000], 1_200_000, eager=provider(5, 20), hand=provider(2, 16))
    flops = 10**15
    square = case("matmul", [4096, 4096, 4096], 10**8, flops, eager=provider(1000), hand=provider(1250))
    skinny = case("matmul", [16, 8192, 8192], 10**8, flops, eager=provider(1000), hand=provider(9000))
    heads = case(
        "attention_causal", [1, 16, 16384, 128], 10**8, flops, flash=provider(1000), cudnn=provider(400),
        hand=provider(500),
    )  # fmt: skip
    cases = [SOFTMAX, slow, both, products, small, square, skinny, heads]
    (tmp_path / "kernels_h200.json").write_text(json.dumps(record(*cases)))
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:5]]
        for line in tables.goals().splitlines()[2:]
    }
    at = "at softmax 1,024 × 131,072"
    assert rows["softmax and norms forward, every width: 94% of a copy"] == ["2", f"50% {at}", "no"]
    assert rows["softmax and norms forward, every width: 99% of QuACK"] == ["1", f"50% {at}", "no"]
    assert rows["linear-cross-entropy: the unfused one takes 6.7 × the memory"][1:] == [
        "1000% at linear_cross_entropy_both 8 × 16 × 32", "yes",
    ]  # fmt: skip
    assert rows["linear-cross-entropy: its products alone take 87% of its time"][1][:3] == "50%"
    assert rows["small shapes: eager takes 77% of our time with Python"] == ["1", "125% at add_relu 100,000", "yes"]
    assert rows["matmul, 2,048 to 8,192 each way: 95% of cuBLAS"][:2] == ["1", "80% at matmul 4,096 × 4,096 × 4,096"]
    at = "at attention_causal 1 × 16 × 16,384 × 128"
    assert rows["attention forward: 1.6 × FlashAttention 2"] == ["1", f"200% {at}", "yes"]
    assert rows["attention forward: 85% of cuDNN"] == ["1", f"80% {at}", "no"]
    assert "cross-entropy forward: 3,900 GB/s" not in rows


def test_the_command_measures_once_and_its_file_makes_the_tables(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a CPU, by way of the engine: what is in the file is not measured again."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("measure", "kernel_figures"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    command: Any = importlib.import_module("kernels_on_gpu")
    path = tmp_path / "kernels_h200.json"
    common = ["--device", "cpu", "--out", str(path), "--samples", "2", "--providers", "eager,hand"]
    command.main([*common, "--only", "softmax,sum", "--seconds", "0"])
    assert "2 cases are left: run the same command again" in capsys.readouterr().out
    command.main([*common, "--only", "softmax"])
    command.main([*common, "--only", "softmax,sum"])
    first = json.loads(path.read_text())
    command.main([*common, "--only", "softmax,sum"])
    again = json.loads(path.read_text())
    assert again["cases"] == first["cases"] and [each["operator"] for each in first["cases"]] == ["softmax", "sum"]
    assert [each["session"] for each in first["cases"]] == [0, 1] and len(again["sessions"]) == 2
    assert len(first["cases"][0]["providers"]["hand"]["device_us"]) == 2
    command.main([*common, "--only", "sum", "--anew"])
    assert [each["operator"] for each in json.loads(path.read_text())["cases"]] == ["softmax", "sum"]
    assert "### sum float32, GB/s" in tables.every_case()
    path.write_text(json.dumps({**first, "gpu": "another"}))
    with pytest.raises(SystemExit, match="measured with another gpu"):
        command.main(common)


def test_a_case_that_can_not_be_measured_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    command: Any = importlib.import_module("kernels_on_gpu")
    measure = command.measure_case

    def failing(operator: Any, *rest: Any, **more: Any) -> Any:
        if operator.name == "softmax":
            raise RuntimeError("no memory\nat all")
        return measure(operator, *rest, **more)

    monkeypatch.setattr(command, "measure_case", failing)
    path = tmp_path / "kernels.json"
    arguments = [
        "--device",
        "cpu",
        "--out",
        str(path),
        "--samples",
        "1",
        "--providers",
        "eager",
        "--only",
        "softmax,sum",
    ]
    for _ in range(2):
        command.main(arguments)
        found = json.loads(path.read_text())
        assert [each["operator"] for each in found["cases"]] == ["sum"]
        assert found["failed"] == [{"operator": "softmax", "shape": [16, 64], "reason": "RuntimeError: no memory"}]


def test_a_cpus_times_are_no_result(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    command: Any = importlib.import_module("kernels_on_gpu")
    with pytest.raises(SystemExit):
        command.main(["--device", "cpu"])
    assert "needs --out" in capsys.readouterr().err


def test_every_figure_is_an_operators_and_the_headline_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    figures: Any = importlib.import_module("kernel_figures")
    from tilesight.bench.operators import OPERATORS

    found = figures.figures()
    assert found[: len(figures.HEADLINE)] == list(figures.HEADLINE) and len(found) == len(set(found))
    assert {name for name, _ in found} == set(OPERATORS)
    assert {("softmax", (8, 131072)), ("layer_norm_backward", (512, 262144))} <= set(found)
