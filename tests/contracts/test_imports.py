"""Imports point one way along the flow of data, and torch and Triton stay where they belong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.sources import PACKAGE, attribute_chains_of, folder_of, imports_of, python_files

# A folder may import itself and what stands further left.
FLOW = (
    ("errors",),
    ("targets",),
    ("ir",),
    ("engine",),
    ("checks",),
    ("ledger",),
    ("capture",),
    ("lowering",),
    ("kernels",),
    ("predict", "bench"),
    ("roads",),
    ("report",),
    ("testing",),
    ("learn",),
    ("cli",),
    ("__init__", "__main__"),
)
RANKS = {folder: rank for rank, folders in enumerate(FLOW) for folder in folders}
WITH_TORCH_AND_TRITON = {"capture", "kernels", "bench", "lowering", "roads"}
WITH_PRIVATE_PARTS = {"capture", "lowering"}
PRIVATE_PARTS = ("torch._", "triton.runtime", "triton.backends", "triton.compiler", "triton._")
WITHOUT_TORCH_AND_TRITON = ("errors", "targets", "ir", "engine", "checks", "ledger", "report")

every_file = pytest.mark.parametrize("path", python_files(PACKAGE), ids=lambda path: str(path.relative_to(PACKAGE)))


def wrong_arrows(folder: str, source: str) -> list[str]:
    """The imports that point against the flow."""
    wrong: list[str] = []
    for each in imports_of(source):
        parts = each.module.split(".")
        if parts[0] != "tilesight" or each.module == "tilesight.__version__":
            continue
        imported = parts[1] if len(parts) > 1 and parts[1] in RANKS else "__init__"
        if imported != folder and RANKS[imported] >= RANKS[folder]:
            wrong.append(f"line {each.line}: {folder} imports {each.module}")
    return wrong


def framework_imports(source: str) -> list[str]:
    return [
        f"line {each.line}: {each.module}"
        for each in imports_of(source)
        if each.module.split(".")[0] in {"torch", "triton"}
    ]


def private_uses(source: str) -> list[str]:
    names = [*imports_of(source), *attribute_chains_of(source)]
    return [f"line {each.line}: {each.module}" for each in names if each.module.startswith(PRIVATE_PARTS)]


def test_every_folder_has_its_place_in_the_flow() -> None:
    assert {folder_of(path) for path in python_files(PACKAGE)} <= set(RANKS)


@every_file
def test_imports_follow_the_flow(path: Path) -> None:
    folder = folder_of(path)
    if folder in {"__init__", "__main__"}:
        return
    assert wrong_arrows(folder, path.read_text()) == []


@every_file
def test_torch_and_triton_are_imported_where_they_belong(path: Path) -> None:
    if folder_of(path) not in WITH_TORCH_AND_TRITON:
        assert framework_imports(path.read_text()) == []


@every_file
def test_private_parts_are_touched_in_capture_and_lowering_only(path: Path) -> None:
    if folder_of(path) not in WITH_PRIVATE_PARTS:
        assert private_uses(path.read_text()) == []


IMPORT_ALL_WITHOUT = """
import importlib, pkgutil, sys
sys.modules["torch"] = sys.modules["triton"] = None
import tilesight
for module in pkgutil.walk_packages(tilesight.__path__, "tilesight."):
    if module.name.split(".")[1] in sys.argv[1:]:
        importlib.import_module(module.name)
        print(module.name)
"""


def test_the_core_imports_without_torch_and_triton() -> None:
    command = [sys.executable, "-c", IMPORT_ALL_WITHOUT, *WITHOUT_TORCH_AND_TRITON]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    imported = {name.split(".")[1] for name in result.stdout.split()}
    assert imported == set(WITHOUT_TORCH_AND_TRITON)


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("ir", "from tilesight.engine.launch import Launch"),
        ("engine", "def late():\n    import tilesight.report.html"),
        ("predict", "from tilesight.bench import run"),
        ("ledger", "from tilesight import trace"),
        ("checks", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tilesight.roads.model import Trace"),
    ],
)
def test_a_wrong_arrow_is_seen(folder: str, source: str) -> None:
    assert len(wrong_arrows(folder, source)) == 1


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("engine", "from tilesight.ir.module import Module\nfrom tilesight.engine.launch import Launch"),
        ("ir", "from tilesight.errors import ParseError\nimport numpy"),
        ("report", "from tilesight import __version__"),
    ],
)
def test_a_right_arrow_is_let_through(folder: str, source: str) -> None:
    assert wrong_arrows(folder, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch._inductor.config",
        "from torch import _dynamo",
        "from triton.runtime.jit import JITFunction",
        "from triton import compiler",
        "import torch\ntorch._C._get_tracing_state()",
        "import triton\ntriton.runtime.driver.active",
    ],
)
def test_a_private_use_is_seen(source: str) -> None:
    assert private_uses(source)


def test_public_uses_are_not_private() -> None:
    assert (
        private_uses("import torch\nimport triton\ntorch.compile(f)\ntriton.cdiv(3, 2)\ntorch.compiler.reset()") == []
    )
