"""Every package says what it exports, and what it says is there."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.contracts.sources import PACKAGE, python_files

INITS = [path for path in python_files(PACKAGE) if path.name == "__init__.py"]
MODULES_WITH_ALL = [path for path in python_files(PACKAGE) if "__all__ = " in path.read_text()]


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def show(path: Path) -> str:
    return module_name(path)


def gathered_names(source: str) -> set[str]:
    """Public names that a package's file takes from the project only to hand them on."""
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilesight")
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {name for name in imported - used if not name.startswith("_")}


def defined_names(source: str) -> set[str]:
    """Public functions and classes that a package's file defines itself."""
    body = ast.parse(source).body
    return {
        node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }


def declared(source: str) -> list[str] | None:
    """The value of `__all__`, None where there is none."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


@pytest.mark.parametrize("path", MODULES_WITH_ALL, ids=show)
def test_what_is_exported_can_be_imported(path: Path) -> None:
    module = importlib.import_module(module_name(path))
    missing = [name for name in module.__all__ if getattr(module, name, None) is None]
    assert missing == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("path", INITS, ids=show)
def test_a_package_exports_all_that_it_gathers(path: Path) -> None:
    source = path.read_text()
    exported = declared(source)
    if exported is None:
        assert gathered_names(source) == set(), f"{module_name(path)} gathers names but has no __all__"
    else:
        assert gathered_names(source) | defined_names(source) <= set(exported)


def test_the_root_exports_the_public_api() -> None:
    exported = declared((PACKAGE / "__init__.py").read_text())
    assert exported is not None
    assert {"Case", "TilesightError", "check", "compare", "disable", "enable", "observe", "trace"} <= set(exported)


def test_a_forgotten_name_is_seen() -> None:
    source = "from tilesight.ir.parser import parse_module, Parser\n__all__ = ['parse_module']"
    assert gathered_names(source) - set(declared(source) or []) == {"Parser"}
