"""The doctor: tells what is here, and is not upset by what is missing or broken."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest
from click.testing import CliRunner

from tilesight.cli import diagnosis
from tilesight.cli.app import app


def answer(monkeypatch: pytest.MonkeyPatch, returncode: int = 0, stdout: str = "", stderr: str = "") -> None:
    """Let torch, asked in its own process, answer this."""

    def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], returncode, stdout, stderr)

    monkeypatch.setattr(subprocess, "run", run)


NO_GPU = json.dumps({"cuda": None, "gpus": []})
ONE_GPU = json.dumps({"cuda": "13.0", "gpus": ["NVIDIA H200"]})


def works(found: diagnosis.Diagnosis) -> list[bool]:
    return [ability.ok for ability in found.abilities]


def test_without_a_gpu_all_but_measuring_works(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, stdout=NO_GPU)
    found = diagnosis.diagnose()
    assert works(found) == [True, True, True, False]
    assert found.gpus == ()
    assert set(found.tools) == {"ptxas", "cuobjdump", "nvdisasm"}
    assert all(path and path.endswith(name) for name, path in found.tools.items())


def test_with_a_gpu_measuring_works(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, stdout=f"a warning of torch\n{ONE_GPU}\n")
    found = diagnosis.diagnose()
    assert (works(found)[3], found.gpus, found.cuda) == (True, ("NVIDIA H200",), "13.0")


def test_a_torch_that_crashes_on_import_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, returncode=1, stderr="Traceback…\nImportError: libfoo.so\n")
    found = diagnosis.diagnose()
    assert found.torch.error == "importing torch failed: ImportError: libfoo.so"
    assert works(found) == [False] * 4
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "importing torch failed: ImportError: libfoo.so" in result.stdout


def test_a_torch_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*arguments: Any, **options: Any) -> Any:
        raise subprocess.TimeoutExpired("python", 120)

    monkeypatch.setattr(subprocess, "run", hang)
    assert "took more than" in diagnosis.diagnose().torch.error


@pytest.mark.parametrize(
    ("torch", "word"), [("2.10.1", "too old; expected 2.11 or newer"), (None, "torch is not installed")]
)
def test_an_old_or_missing_torch_is_a_fault(monkeypatch: pytest.MonkeyPatch, torch: str | None, word: str) -> None:
    def version(name: str) -> str:
        if name == "torch" and torch is None:
            raise metadata.PackageNotFoundError(name)
        return str(torch) if name == "torch" else "3.7.1"

    answer(monkeypatch, stdout=NO_GPU)
    monkeypatch.setattr(metadata, "version", version)
    result = CliRunner().invoke(app, ["doctor", "--lang", "en"])
    assert result.exit_code == 1
    assert word in result.stdout


def test_versions_with_suffixes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, stdout=NO_GPU)
    monkeypatch.setattr(metadata, "version", lambda name: {"torch": "2.15.0a0+git1", "triton": "3.9.0"}[name])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert works(diagnosis.diagnose())[:2] == [True, True]


def test_a_tool_that_is_missing_is_told_but_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, stdout=NO_GPU)
    monkeypatch.setattr(diagnosis, "_tool", lambda name: None)  # pyright: ignore[reportUnknownLambdaType]
    found = diagnosis.diagnose()
    assert works(found) == [True, True, False, False]
    assert found.abilities[2].why == "ptxas, cuobjdump, nvdisasm not found in the Triton wheel"
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 0


def test_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, stdout=NO_GPU)
    result = CliRunner().invoke(app, ["doctor", "--lang", "zh"])
    assert "可用" in result.stdout and "不可用" in result.stdout


def test_the_real_doctor_in_this_environment() -> None:
    code = "from tilesight.cli import main; main()"
    asked = subprocess.run(
        [sys.executable, "-c", code, "doctor", "--json", "-"], capture_output=True, text=True, check=False
    )
    data = json.loads(asked.stdout)
    assert asked.returncode == 0, asked.stderr
    assert data["torch"]["version"] == metadata.version("torch")
    assert [each["ok"] for each in data["works"][:2]] == [True, True]
