"""Graphs and kernels in an Inductor cache folder, newest first, without unpickling anything.

`fxgraph/xx/KEY/HASH` are pickled `CompiledFxGraph`s; unpickling someone's file can run anything, so the pickle's
opcodes are walked and its strings picked out: generated code, the graph it came from, its guards. The `xx/*.py` files
beside are wrappers, and modules of one Triton kernel each. Seen on torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilesight.capture.inductor.graph import Node
from tilesight.capture.inductor.readable_graph import read_graph
from tilesight.capture.inductor.saved_code import is_generated

_CODE, _GRAPH, _GUARDS = "source_code", "inductor_post_grad_graph_str", "guards_expr"
_WANTED = (_CODE, _GRAPH, _GUARDS)
_KERNEL_MARK = "triton_heuristics"


@dataclass(frozen=True)
class CachedGraph:
    """One compiled graph.

    Args:
        path: of its entry, or of its wrapper where it has no entry
        key: the entry's key; empty without an entry
        modified_s: when it was written, in seconds since 1970
        code: the generated wrapper
        aten: the graph it was generated from; empty without an entry
        guards: on the sizes for which the entry is used; empty where there are none
    """

    path: Path
    key: str
    modified_s: float
    code: str
    aten: tuple[Node, ...] = ()
    guards: str = ""


@dataclass(frozen=True)
class CacheFolder:
    """What a folder holds.

    Args:
        graphs: newest first
        kernels: files of Triton kernels, newest first
        damage: a sentence for each entry that cannot be read
    """

    graphs: tuple[CachedGraph, ...]
    kernels: tuple[Path, ...]
    damage: tuple[str, ...]


def is_cache_folder(path: Path) -> bool:
    """Whether a folder is laid out as Inductor's cache: `fxgraph`, or Python files in folders of two characters."""
    return path.is_dir() and ((path / "fxgraph").is_dir() or next(_python_files(path), None) is not None)


def read_cache_folder(path: Path) -> CacheFolder:
    """The graphs and kernels in the folder; an entry that cannot be read is named and passed over."""
    graphs: list[CachedGraph] = []
    kernels: list[Path] = []
    damage: list[str] = []
    for entry in (each for each in (path / "fxgraph").glob("*/*/*") if each.is_file()):
        try:
            graphs.append(_read_entry(entry))
        except (ValueError, OSError) as error:
            problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            damage.append(f"{entry.relative_to(path)}: an entry that cannot be read was passed over ({problem})")
    known = {graph.code.strip() for graph in graphs}
    for file in _python_files(path):
        text = file.read_text(encoding="utf-8", errors="replace")
        if is_generated(text) and text.strip() not in known:
            graphs.append(CachedGraph(file, "", file.stat().st_mtime, text))
        elif not is_generated(text) and _KERNEL_MARK in text:
            kernels.append(file)
    newest = sorted(graphs, key=lambda graph: (-graph.modified_s, str(graph.path)))
    by_age = sorted(kernels, key=lambda file: (-file.stat().st_mtime, file.name))
    return CacheFolder(tuple(newest), tuple(by_age), tuple(sorted(damage)))


def _python_files(path: Path) -> Iterator[Path]:
    return path.glob("[a-z0-9][a-z0-9]/*.py")


def _read_entry(entry: Path) -> CachedGraph:
    """Raises: ValueError: when it is no whole pickle, or holds no generated code"""
    texts = _texts_in(entry.read_bytes())
    if _CODE not in texts:
        raise ValueError("no generated code in it")
    aten = read_graph(texts.get(_GRAPH, ""))
    key = entry.parent.name
    return CachedGraph(entry, key, entry.stat().st_mtime, texts[_CODE], aten, texts.get(_GUARDS, ""))


def _texts_in(pickled: bytes) -> dict[str, str]:
    """The strings that follow the names of the wanted fields; nothing is built from the pickle."""
    found: dict[str, str] = {}
    field = ""
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name == "MEMOIZE":
            continue
        if field and isinstance(argument, str):
            found.setdefault(field, argument)
        field = argument if isinstance(argument, str) and argument in _WANTED else ""
    return found
