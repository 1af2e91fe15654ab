"""The three parts of a kernel found in its source: program id → tile, load/store, mask."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Parts:
    """The three parts of a kernel: line numbers (1-based) in the kernel's own source text.

    `program_id` holds the lines that turn the program id into the tile's offsets, `mask` those that
    say which lanes exist. A line may belong to several parts: a load with its mask written inline.
    """

    program_id: tuple[int, ...] = ()
    load: tuple[int, ...] = ()
    store: tuple[int, ...] = ()
    mask: tuple[int, ...] = ()

    def of(self, line: int) -> tuple[str, ...]:
        """The names of the parts that a line belongs to."""
        return tuple(name for name in ("program_id", "load", "store", "mask") if line in getattr(self, name))


_LOADS = ("load", "atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg")
_STORES = ("store", "atomic_add", "atomic_max", "atomic_min", "atomic_cas", "atomic_xchg")


@lru_cache(maxsize=1024)
def find_parts(source: str, kernel: str = "") -> Parts:
    """The parts of the kernel function in `source`.

    Offsets are the lines that a load's or a store's pointer depends on, as far as no loaded value is
    involved; masks are the lines that a mask argument depends on but no pointer does.

    Args:
        source: Python text that holds the kernel; line numbers count from its first line
        kernel: the function's name; the first function when empty
    """
    tree = ast.parse(textwrap.dedent(source))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and kernel in ("", n.name)]
    return _Finder(functions[0]).parts() if functions else Parts()


def body_lines(source: str, kernel: str = "") -> tuple[int, ...]:
    """Line numbers of the statements in the kernel's body; docstrings, constants and if-headers left out."""
    tree = ast.parse(textwrap.dedent(source))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and kernel in ("", n.name)]
    if not functions:
        return ()
    statements = [n for n in ast.walk(functions[0]) if isinstance(n, ast.stmt) and n is not functions[0]]
    kept = [
        n for n in statements if not isinstance(getattr(n, "value", None), ast.Constant) and not isinstance(n, ast.If)
    ]
    return tuple(sorted({n.lineno for n in kept}))


class _Finder:
    """Follows the names in one kernel from its memory calls back to the program id."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._assigned: dict[str, list[tuple[int, ast.expr]]] = {}
        self._calls: list[tuple[str, ast.Call]] = []
        for node in ast.walk(function):
            self._note(node)
        self._loaded = self._names_from_loads()

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for name in (n for t in targets for n in _names(t)):
                    self._assigned.setdefault(name, []).append((node.lineno, value))
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self._assigned.setdefault(name, []).append((node.lineno, value))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._assigned.setdefault(name, []).append((node.lineno, value))
            case ast.For(target=ast.Name(id=name), iter=value):
                self._assigned.setdefault(name, []).append((node.lineno, value))
            case ast.Call(func=ast.Attribute(attr=attr)):
                self._calls.append((attr, node))
            case _:
                pass

    def parts(self) -> Parts:
        loads = [c for name, c in self._calls if name in _LOADS]
        stores = [c for name, c in self._calls if name in _STORES]
        accesses = [c for c in loads + stores if c.args]
        address = self._lines_behind(n for c in accesses for n in _names(c.args[0]))
        masks = [m for c in accesses for m in [_mask_of(c)] if m is not None]
        mask = self._lines_behind(n for m in masks for n in _names(m)) - address
        inline = {m.lineno for m in masks if isinstance(m, ast.Compare | ast.BoolOp | ast.BinOp)}
        program_ids = {c.lineno for name, c in self._calls if name == "program_id"}
        memory = {c.lineno for c in accesses}
        return Parts(
            program_id=tuple(sorted((address | program_ids) - memory)),
            load=tuple(sorted({c.lineno for c in loads})),
            store=tuple(sorted({c.lineno for c in stores})),
            mask=tuple(sorted(mask - memory | inline)),
        )

    def _names_from_loads(self) -> set[str]:
        """Names whose value comes from a load, directly or not."""
        loaded: set[str] = set()
        while True:
            found = {
                name
                for name, values in self._assigned.items()
                if any(_has_load(v) or loaded & set(_names(v)) for _, v in values)
            }
            if found <= loaded:
                return loaded
            loaded |= found

    def _lines_behind(self, names: Iterable[str]) -> set[int]:
        """Lines that assign these names, and the names those lines use, short of loaded values."""
        lines: set[int] = set()
        waiting = list(names)
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or name in self._loaded:
                continue
            seen.add(name)
            for line, value in self._assigned.get(name, ()):
                if not isinstance(value, ast.Constant):
                    lines.add(line)
                waiting.extend(_names(value))
        return lines


def _mask_of(call: ast.Call) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg == "mask"]
    if named:
        return named[0]
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    position = 1 if name == "load" else 2
    mask = call.args[position] if len(call.args) > position else None
    return None if isinstance(mask, ast.Constant) else mask


def _names(expression: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(expression) if isinstance(node, ast.Name)]


def _has_load(expression: ast.expr) -> bool:
    calls = [n for n in ast.walk(expression) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in _LOADS for call in calls)
