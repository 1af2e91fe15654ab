"""Loads what a tutorial's launchers need from its file, and leaves its demonstration and benchmark out."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any


def load_tutorial(path: Path, roots: Collection[str], answers: Mapping[str, Any]) -> ModuleType:
    """A module with the named functions and classes and every top-level statement that they depend on.

    The statements are the file's own and keep their lines; nothing is edited.

    Args:
        roots: names to load
        answers: names whose definition in the file is replaced, such as `is_cuda`
    """
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    needed = _needed_statements(tree.body, roots, answers)
    tree.body = [statement for statement in tree.body if statement in needed]
    module = ModuleType(f"tutorial_{path.stem.replace('-', '_')}")
    module.__file__ = str(path)
    module.__dict__.update(answers)
    sys.modules[module.__name__] = module
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module


def _needed_statements(body: list[ast.stmt], roots: Collection[str], answers: Mapping[str, Any]) -> set[ast.stmt]:
    binders: dict[str, list[ast.stmt]] = {}
    for statement in body:
        for name in _bound_names(statement):
            binders.setdefault(name, []).append(statement)
    needed: set[ast.stmt] = set()
    waiting = list(roots)
    seen: set[str] = set(answers)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for statement in binders.get(name, []):
            if statement not in needed:
                needed.add(statement)
                waiting.extend(_read_names(statement))
    return needed


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """Names that a top-level statement defines; those inside functions and classes are theirs alone."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]


def _read_names(statement: ast.stmt) -> Iterator[str]:
    """Global names that a statement may read: every loaded name that no function around it binds."""
    local: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            local.update(argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg))
        if isinstance(node, ast.FunctionDef):
            stores = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
            local.update(inner.id for inner in stores if isinstance(inner.ctx, ast.Store))
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
            yield node.id
