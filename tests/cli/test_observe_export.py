"""`tilesight observe --export DIR` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.contracts.test_schemas import validate
from tilesight.cli.app import app

SOURCE = """
import torch


def mlp(x, w):
    return torch.relu(x @ w) + 1


def example_inputs():
    return "f32[8,16],f32[16,4]"
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return f"{path}:mlp"


def test_the_files_are_written_and_what_has_none_is_told(spec: str, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    result = CliRunner().invoke(app, ["observe", spec, "--export", str(folder), "--json", "-"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    validate("observe", data)
    kernel, product = data["exported"]
    assert [path.name for path in folder.iterdir()] == [kernel["file"]] and kernel["against"] == "graph"
    assert (product["kernel"], product["file"]) == ("mm", "") and "no Triton source" in product["reason"]
    assert any(note.startswith("not exported: mm") for note in data["notes"])
    assert "1 kernel in" in result.stderr


def test_an_edited_file_is_never_written_over(spec: str, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    assert CliRunner().invoke(app, ["observe", spec, "--export", str(folder)]).exit_code == 0
    (file,) = folder.iterdir()
    again = CliRunner().invoke(app, ["observe", spec, "--export", str(folder)])
    assert again.exit_code == 0, again.output  # the same text
    file.write_text("# my work\n")
    refused = CliRunner().invoke(app, ["observe", spec, "--export", str(folder)])
    assert refused.exit_code == 2 and refused.stderr.count("\n") == 1
    assert f"{file} is there and says something else" in refused.stderr
    assert file.read_text() == "# my work\n"


def test_a_path_that_is_a_file_is_refused_before_anything_is_compiled(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.write_text("")
    result = CliRunner().invoke(app, ["observe", spec, "--export", str(path)])
    assert result.exit_code == 2 and "--export" in result.stderr and "is a file" in result.stderr
