"""The project's own source files and what their syntax trees say about imports and sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tilesight"


@dataclass(frozen=True)
class Import:
    """One import: the dotted name that is loaded, and where. `from a import b` loads `a.b`."""

    module: str
    line: int


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def folder_of(path: Path) -> str:
    """The package folder that a file belongs to; a file in the package's root stands for itself."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(source: str) -> list[Import]:
    """Every import of a file, those inside functions and type-checking blocks included."""
    found: list[Import] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; write the full name"
            found.extend(Import(f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
    return found


def attribute_chains_of(source: str) -> list[Import]:
    """Every dotted chain that starts at a plain name, such as `torch._C.foo`."""
    chains: list[Import] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            parts: list[str] = []
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name):
                chains.append(Import(".".join([inner.id, *reversed(parts)]), node.lineno))
    return chains


def functions_of(source: str) -> Iterator[tuple[str, int, bool]]:
    """(name, lines, is a Triton kernel) of every function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(each) for each in node.decorator_list}
            is_kernel = any(name.startswith(("triton.jit", "jit")) for name in decorators)
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1, is_kernel
