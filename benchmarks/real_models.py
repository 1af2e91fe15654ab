"""Real models at full size, observed for a GPU that is not here: what torch.compile does, seconds and peak memory.

Run `python benchmarks/real_models.py` (it needs the `models` extra). Each model is observed twice, each time in a
fresh process with empty caches: an inference, and a training step with its backward graphs. Weights are on the meta
device, in bf16. The seconds are those of the whole process, imports and building the model included. A model that
fails is written down with its reason. Writes benchmarks/results/real_models.json, anew after each model.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from measure import run_process, with_empty_caches, write_result
from models.catalogue import MODELS
from models.step import RealModel
from tilesight.ledger.model import RoundTrip

HERE = Path(__file__).resolve()
DIRECTIONS = ("inference", "training")
SHOWN_TRIPS = 3


def observe_here(model: RealModel, direction: str, target: str) -> dict[str, Any]:
    """The model observed in this process: counts, bytes and the dearest round trips."""
    import tilesight

    started, cpu_started = time.perf_counter(), time.process_time()
    step = model.step()
    parameters = sum(parameter.numel() for parameter in step.parameters())
    built, cpu_built = time.perf_counter(), time.process_time()
    seen = tilesight.observe(step, model.inputs, target=target, backward=direction == "training")
    ledger = seen.ledger
    return {
        "parameters": parameters,
        "build_s": built - started,
        "build_cpu_s": cpu_built - cpu_started,
        "observe_s": time.perf_counter() - built,
        "observe_cpu_s": time.process_time() - cpu_built,
        "compile_s": seen.compile.cold_s,
        "graphs": len(seen.output_code),
        "breaks": [{"source": place(each.source), "reason": each.reason} for each in seen.breaks],
        "kernels": len(seen.kernels),
        "triton_kernels": sum(kernel.kind == "triton" for kernel in seen.kernels),
        "different_triton_kernels": len({kernel.source for kernel in seen.kernels if kernel.kind == "triton"}),
        "eager_bytes": ledger.eager_bytes,
        "compiled_bytes": ledger.compiled_bytes,
        "ideal_bytes": ledger.ideal_bytes,
        "round_trips": len(ledger.round_trips),
        "dearest": dearest(ledger.round_trips),
        "notes": list(seen.notes),
    }


def dearest(trips: Iterable[RoundTrip]) -> list[dict[str, Any]]:
    """The dearest round trips, those of the same kernels and bytes (a model's layers) taken together."""
    alike: dict[tuple[str, tuple[str, ...], int], list[str]] = {}
    for trip in trips:
        alike.setdefault((trip.written_by, trip.read_by, trip.bytes), []).append(trip.tensor)
    ordered = sorted(alike.items(), key=lambda item: -item[0][2] * len(item[1]))
    return [
        {"written_by": writer, "read_by": list(readers), "bytes": count, "times": len(tensors), "tensor": tensors[0]}
        for (writer, readers, count), tensors in ordered[:SHOWN_TRIPS]
    ]


def place(source: str) -> str:
    """`package/file.py:line` of a file:line, without the folders of one machine."""
    return "/".join(source.rsplit("/", 2)[-2:])


def measure(name: str, direction: str, target: str) -> dict[str, Any]:
    """One model and direction in a process of its own; `failed` with the reason where it fails."""
    command = [sys.executable, str(HERE), "--here", "--models", name]
    command += ["--directions", direction, "--target", target]
    load = os.getloadavg()[0]
    try:
        with tempfile.TemporaryDirectory() as folder:
            sample = run_process(command, with_empty_caches(folder))
    except RuntimeError as error:
        return {"failed": str(error).strip().splitlines()[-1], "load_average": load}
    seen: dict[str, Any] = json.loads(sample.output.splitlines()[-1])
    return {**seen, "wall_s": sample.wall_s, "peak_rss_bytes": sample.peak_rss_bytes, "load_average": load}


def show(name: str, direction: str, row: dict[str, Any]) -> str:
    """A line for the terminal."""
    if "failed" in row:
        return f"{name}, {direction}: failed: {row['failed']}"
    moved = (row[f"{road}_bytes"] for road in ("eager", "compiled", "ideal"))
    eager, compiled, ideal = ("?" if count is None else f"{count / 1e9:.2f}" for count in moved)
    return (
        f"{name}, {direction}: {row['graphs']} graphs, {len(row['breaks'])} breaks, {row['kernels']} kernels, "
        f"{eager} / {compiled} / {ideal} GB, {row['wall_s']:.1f} s, {row['peak_rss_bytes'] / 2**30:.2f} GiB"
    )


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), help="these alone")
    parser.add_argument("--directions", nargs="+", default=list(DIRECTIONS), choices=DIRECTIONS)
    parser.add_argument("--target", default="h200", help="the GPU that is observed for")
    parser.add_argument("--here", action="store_true", help="observe in this process and print the row")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    if options.here:
        row = observe_here(MODELS[options.models[0]], options.directions[0], options.target)
        print(json.dumps(row))
        return
    rows: dict[str, dict[str, Any]] = {}
    path = None
    for name in options.models:
        model = MODELS[name]
        seen: dict[str, Any] = {"title": model.title, "origin": model.origin, "batch": model.batch}
        for direction in options.directions:
            seen[direction] = measure(name, direction, options.target)
            print(show(name, direction, seen[direction]), flush=True)
        rows[name] = seen
        measured = {"target": options.target, "transformers": metadata.version("transformers"), "models": rows}
        path = write_result("real_models", arguments, measured)  # after each: a run that is cut off leaves the others
    print(f"written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
