"""How much faster the engine is than Triton's interpreter, on one vector add in the same run.

Run `python benchmarks/engine_vs_interpreter.py --runs 3`. Each sample is a fresh process, engine and
interpreter in turn. The engine is traced (addresses, masks and bytes are counted), the interpreter
only runs; both time one whole launch, the engine's with compilation from an empty cache, and check the
sum. Writes benchmarks/results/engine_vs_interpreter.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import triton
import triton.language as tl

import tilesight
from measure import Sample, run_process, summarize, with_empty_caches, write_result
from tilesight.roads.model import Trace

ROADS = ("engine", "interpreter")


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = x[i] + y[i]

    Tensors   x, y, out [n] f32, contiguous, each moved once
    Tile      BLOCK elements a program
    Mask      i < n
    """
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def time_launch(launch: Callable[[], object]) -> float:
    start = time.perf_counter()
    launch()
    return time.perf_counter() - start


def work(road: str, elements: int, block: int) -> dict[str, object]:
    """One launch on one road in this process: seconds, programs, bytes counted by the trace."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(elements, generator=generator)
    y = torch.randn(elements, generator=generator)
    out = torch.empty_like(x)
    grid = (triton.cdiv(elements, block),)
    if road == "interpreter":
        seconds = time_launch(lambda: add_kernel[grid](x, y, out, elements, BLOCK=block))
        touched_bytes = None
    else:
        traces: list[Trace] = []
        seconds = time_launch(
            lambda: traces.extend(tilesight.trace(add_kernel[grid], x, y, out, elements, BLOCK=block))
        )
        touched_bytes = traces[0].traffic.bytes.touched
    if not torch.equal(out, x + y):
        raise RuntimeError(f"the {road} gave a wrong sum")
    return {"launch_s": seconds, "programs": grid[0], "touched_bytes": touched_bytes}


def sample(road: str, elements: int, block: int) -> Sample:
    """A fresh process that does the work of one road."""
    arguments = ["--road", road, "--elements", str(elements), "--block", str(block)]
    with tempfile.TemporaryDirectory() as folder:
        environment = with_empty_caches(folder)
        environment["TRITON_INTERPRET"] = "1" if road == "interpreter" else "0"
        return run_process([sys.executable, str(Path(__file__).resolve()), *arguments], environment)


def compare(runs: int, elements: int, block: int) -> dict[str, object]:
    """Both roads in turn; the ratio is the interpreter's median over the engine's."""
    taken: dict[str, list[dict[str, object]]] = {road: [] for road in ROADS}
    for run in range(runs):
        for road in ROADS if run % 2 == 0 else reversed(ROADS):
            process = sample(road, elements, block)
            counted = json.loads(process.output)
            taken[road].append(counted | {"wall_s": process.wall_s, "peak_rss_bytes": process.peak_rss_bytes})
            print(f"run {run + 1}, {road}: {counted['launch_s']:.3f} s")
    launch_s = {road: summarize([float(str(each["launch_s"])) for each in taken[road]]) for road in ROADS}
    return {
        "elements": elements,
        "block": block,
        "launch_s": launch_s,
        "ratio": launch_s["interpreter"]["median"] / launch_s["engine"]["median"],
        "samples": taken,
    }


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="fresh processes for each road")
    parser.add_argument("--elements", type=int, default=2**24, help="length of the vectors")
    parser.add_argument("--block", type=int, default=1024, help="elements of a program's tile")
    parser.add_argument("--road", choices=ROADS, help="do the work of one road in this process")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    if options.road:
        print(json.dumps(work(options.road, options.elements, options.block)))
        return
    measured = compare(options.runs, options.elements, options.block)
    print(f"ratio {measured['ratio']:.1f}; written to {write_result('engine_vs_interpreter', arguments, measured)}")


if __name__ == "__main__":
    main(sys.argv[1:])
