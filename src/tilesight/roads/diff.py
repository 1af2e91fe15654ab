"""`tilesight observe --diff A.json B.json`: two observations against each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from tilesight.capture.inductor.scrub import scrub
from tilesight.roads.diff_model import Figure, KernelChange, ListChange, ObservationDiff
from tilesight.roads.saved_json import read_graphs

Graphs = Sequence[dict[str, Any]]
KERNEL_FIGURES = ("kind", "ops", "graph", "grid", "config", "registers", "spills", "shared_bytes", "occupancy",
                  "predicted_us")  # fmt: skip
"""Not the buffers it reads and writes: they are numbered anew where anything else changes."""
ALIKE = 0.5
"""Kernels that share this many of their operators are one kernel that changed."""
_ENTRY = re.compile(r", (?='\w+': )")
"""Between two entries of Inductor's long metadata dicts: each gets a line of its own in a diff."""
_NUMBER = re.compile(r"_\d+$")
_LINE = re.compile(r"\.py:\d+")


def diff_files(before: Path, after: Path) -> ObservationDiff:
    """What differs between two saved observations: two versions, two modes, before and after an edit.

    Raises: InputError: when a file holds no observation
    """
    return diff_graphs(read_graphs(before), read_graphs(after), str(before), str(after))


def diff_graphs(a: Graphs, b: Graphs, before: str = "before", after: str = "after") -> ObservationDiff:
    """As `diff_files`, of data in memory.

    Kernels are paired by their source, then by their name without its number, then by the operators they share.
    """
    lists = [(key, list(read(a)), list(read(b))) for key, read in _LISTS.items()]
    changes = [ListChange(key, _left_over(old, new), _left_over(new, old)) for key, old, new in lists]
    return ObservationDiff(
        before=before,
        after=after,
        settings=tuple(Figure(key, _setting(a, key), _setting(b, key)) for key in _SETTINGS),
        figures=tuple(Figure(key, read(a), read(b)) for key, read in _FIGURES.items()),
        kernels=tuple(_kernel_changes(_kernels(a), _kernels(b))),
        lists=tuple(each for each in changes if each.removed or each.added),
    )


_SETTINGS = ("subject", "inputs", "target", "torch", "triton")


def _setting(graphs: Graphs, key: str) -> str | None:
    found = [", ".join(value) if isinstance(value, list) else value for graph in graphs if (value := graph.get(key))]
    return "; ".join(dict.fromkeys(map(str, found))) or None


def _kernels(graphs: Graphs) -> list[dict[str, Any]]:
    return [kernel for graph in graphs for kernel in graph["kernels"]]


def _total(graphs: Graphs, part: str, key: str) -> Any:
    """The sum over all graphs; None where one of them does not know it."""
    found = [graph[part].get(key) for graph in graphs]
    return None if None in found else sum(found)


def _touched(graphs: Graphs) -> int | None:
    found = [kernel["bytes"]["touched"] for kernel in _kernels(graphs) if kernel["kind"] == "triton"]
    return None if None in found or not found else sum(found)


def _cache(graphs: Graphs) -> str | None:
    return "; ".join(dict.fromkeys(each for graph in graphs if (each := graph["compile"]["cache"]))) or None


_FIGURES: dict[str, Callable[[Graphs], Any]] = {
    "graphs": len,
    "aten_ops": lambda graphs: sum(len(graph["graph"]["ops"]) for graph in graphs),
    "kernel_count": lambda graphs: len(_kernels(graphs)),
    "triton_kernels": lambda graphs: sum(kernel["kind"] == "triton" for kernel in _kernels(graphs)),
    "extern_calls": lambda graphs: sum(kernel["kind"] == "extern" for kernel in _kernels(graphs)),
    "break_count": lambda graphs: sum(len(graph["breaks"]) for graph in graphs),
    "pairs_left_apart": lambda graphs: sum(len(graph["not_fused"]) for graph in graphs),
    "eager_bytes": lambda graphs: _total(graphs, "ledger", "eager_bytes"),
    "compiled_bytes": lambda graphs: _total(graphs, "ledger", "compiled_bytes"),
    "ideal_bytes": lambda graphs: _total(graphs, "ledger", "ideal_bytes"),
    "touched_bytes": _touched,
    "cold_s": lambda graphs: _total(graphs, "compile", "cold_s"),
    "warm_s": lambda graphs: _total(graphs, "compile", "warm_s"),
    "cache": _cache,
}  # fmt: skip


def _operators(graphs: Graphs) -> Iterator[str]:
    return (str(op["target"]) for graph in graphs for op in graph["graph"]["ops"])


def _breaks(graphs: Graphs) -> Iterator[str]:
    return (f"{_place(each['source'])}: {each['reason']}" for graph in graphs for each in graph["breaks"])


def _apart(graphs: Graphs) -> Iterator[str]:
    return (f"{each['a']} | {each['b']}: {each['reason']}" for graph in graphs for each in graph["not_fused"])


def _trips(graphs: Graphs) -> Iterator[str]:
    """Without the names of buffers and the kernels' numbers, which a change elsewhere moves."""
    for graph in graphs:
        for trip in graph["ledger"]["round_trips"]:
            readers = ", ".join(_NUMBER.sub("", name) for name in trip["read_by"])
            yield f"{_NUMBER.sub('', trip['written_by'])} → {readers}: {trip['bytes']:,} B"


def _texts(key: str) -> Callable[[Graphs], Iterator[str]]:
    return lambda graphs: (str(each) for graph in graphs for each in graph.get(key, ()))


_LISTS: dict[str, Callable[[Graphs], Iterable[str]]] = {
    "operators": _operators,
    "breaks": _breaks,
    "not_fused": _apart,
    "round_trips": _trips,
    "recompiles": _texts("recompiles"),
    "guards": _texts("guards"),
}


def _place(source: str) -> str:
    """`file.py:8`: the folder may be another machine's."""
    return source.rsplit("/", 1)[-1]


def _left_over(here: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    """What is here and not there, counted: `aten.add.Tensor ×2` where it is missing twice.

    Line numbers and the comments behind guards are shown, but not compared: an edit above moves them.
    """
    shown = {_without_lines(text): text for text in here}
    counted = Counter(map(_without_lines, here)) - Counter(map(_without_lines, there))
    return tuple(f"{shown[key]} ×{count}" if count > 1 else shown[key] for key, count in counted.items())


def _without_lines(text: str) -> str:
    return _LINE.sub(".py", text.split("  # ", 1)[0])


def _kernel_changes(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[KernelChange]:
    pairs = _paired(old, new)
    waiting = [number for number in range(len(old)) if number not in pairs.values()]
    for number, kernel in enumerate(new):
        partner = pairs.get(number)
        while waiting and partner is not None and waiting[0] < partner:
            yield KernelChange(old[waiting.pop(0)]["name"], "", "removed")
        yield KernelChange("", kernel["name"], "added") if partner is None else _change(old[partner], kernel)
    for number in waiting:
        yield KernelChange(old[number]["name"], "", "removed")


def _paired(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> dict[int, int]:
    """The position in `old` for each one in `new` that has a partner; each is used once, in order."""
    found: dict[int, int] = {}
    for key in (lambda k: (_plain(k), k["grid"], sorted(k["ops"])), _plain, lambda k: (_name(k), k["graph"]), _work):
        free: dict[str, list[int]] = {}
        for number, kernel in enumerate(old):
            if number not in found.values():
                free.setdefault(repr(key(kernel)), []).append(number)
        for number, kernel in enumerate(new):
            if number not in found and free.get(repr(key(kernel))):
                found[number] = free[repr(key(kernel))].pop(0)
    for number, kernel in enumerate(new):
        rest = [each for each in range(len(old)) if each not in found.values()]
        likeness = {each: _likeness(old[each], kernel) for each in rest if number not in found}
        best = max(likeness, key=lambda each: likeness[each], default=None)
        if best is not None and likeness[best] >= ALIKE:
            found[number] = best
    return found


def _likeness(a: dict[str, Any], b: dict[str, Any]) -> float:
    """The share of operators that two kernels have in common; 0 for kernels of two kinds."""
    if (a["kind"], a["graph"]) != (b["kind"], b["graph"]):
        return 0.0
    ours, theirs = set(a["ops"]), set(b["ops"])
    return len(ours & theirs) / (len(ours | theirs) or 1)


def _name(kernel: dict[str, Any]) -> str:
    return _NUMBER.sub("", kernel["name"])


def _work(kernel: dict[str, Any]) -> tuple[object, ...]:
    return kernel["kind"], kernel["graph"], sorted(kernel["ops"])


def _plain(kernel: dict[str, Any]) -> str:
    """The source with hashes blanked and its own name without the number; a name for what has no source."""
    source = scrub(kernel["source"]).replace(kernel["name"], _name(kernel))
    return source or f"{kernel['kind']} {_name(kernel)}"


def _change(old: dict[str, Any], new: dict[str, Any]) -> KernelChange:
    figures = [Figure(key, _text(key, old.get(key)), _text(key, new.get(key))) for key in KERNEL_FIGURES]
    figures += [Figure(key, old["bytes"][key], new["bytes"][key]) for key in ("requested", "touched", "dram")]
    changed = tuple(figure for figure in figures if figure.is_changed)
    source: tuple[str, ...] = ()
    if _plain(old) != _plain(new):
        a, b = (_ENTRY.sub(",\n        ", _plain(each)).splitlines() for each in (old, new))
        source = tuple(unified_diff(a, b, old["name"], new["name"], lineterm="", n=2))
    return KernelChange(old["name"], new["name"], "changed" if changed or source else "same", changed, source)


def _text(key: str, value: Any) -> int | float | str | None:
    """A figure's text; operators in order, since Inductor lists them in none."""
    if isinstance(value, dict):
        return " ".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, sorted(value) if key == "ops" else value))
    return value
