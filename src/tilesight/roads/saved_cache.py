"""The compiled road of an Inductor cache folder: `tilesight observe CACHE_FOLDER`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tilesight.capture.inductor.cache_folder import CachedGraph, CacheFolder, read_cache_folder
from tilesight.errors import InputError
from tilesight.roads.model import Observation, Observations
from tilesight.roads.saved_code import observe_code

SHOWN_GRAPHS = 50
"""The newest graphs are shown in full; the others are counted."""


def observe_cache(path: Path) -> Observations:
    """The graphs of a cache folder, newest first, each an Observation; their kernels are not run.

    Raises: InputError: when no graph can be shown
    """
    folder = read_cache_folder(path)
    notes = [*folder.damage, *_kernels_apart(folder)]
    regions: list[Observation] = []
    for graph in folder.graphs[:SHOWN_GRAPHS]:
        try:
            regions.append(_observe_graph(graph, path))
        except InputError as error:
            notes.append(str(error))
    if not regions:
        raise InputError(
            "no graph that can be shown",
            where=str(path),
            expected="an Inductor cache folder, such as TORCHINDUCTOR_CACHE_DIR",
            next_step=notes[0] if notes else "",
        )
    if len(folder.graphs) > SHOWN_GRAPHS:
        notes.append(f"{len(folder.graphs)} graphs; the newest {SHOWN_GRAPHS} are shown")
    return Observations(str(path), tuple(regions), tuple(notes))


def _observe_graph(graph: CachedGraph, folder: Path) -> Observation:
    written = datetime.fromtimestamp(graph.modified_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    place = graph.path.relative_to(folder)
    seen = observe_code(graph.code, str(graph.path), aten=graph.aten, is_measured=False)
    how = "in the cache" if graph.key else "generated code in the folder, with no entry in the graph cache"
    return replace(
        seen,
        subject=f"{place} ({written})",
        guards=(graph.guards,) if graph.guards and graph.guards != "True" else (),
        compile=replace(seen.compile, cache=how),
    )


def _kernels_apart(folder: CacheFolder) -> list[str]:
    """Kernels on disk that no graph shown here holds."""
    held = "".join(graph.code for graph in folder.graphs)
    apart = [file for file in folder.kernels if file.read_text(encoding="utf-8", errors="replace").strip() not in held]
    if not apart:
        return []
    names = ", ".join(f"{file.parent.name}/{file.name}" for file in apart[:5])
    more = f", … ({len(apart)} in all)" if len(apart) > 5 else ""
    return [f"kernels that no graph here holds: {names}{more}"]
