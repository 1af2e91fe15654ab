"""What observing costs: torch.compile for a GPU that is not here, alone, and observed by Tilesight.

Run `python benchmarks/observing_cost.py --runs 5`. Alone, Dynamo, AOT and Inductor work up to the generated code of
every graph, and nothing is kept of it. Observed is all of `tilesight.observe`: the same work, with what every part
decided recorded, the generated code read, eager mode recorded, the ledger made. Each sample is a fresh process with
empty caches, the two take turns, and the clock starts after all imports. Writes
benchmarks/results/observing_cost.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import types
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import cases
import tilesight
from measure import Sample, run_process, summarize, with_empty_caches, write_result
from models.catalogue import MODELS
from tilesight.capture.inductor.choices import nothing_timed
from tilesight.capture.inductor.compile import quiet, reproducible_config
from tilesight.capture.inductor.on_engine import ask_gradients
from tilesight.capture.inductor.pretend import pretend
from tilesight.capture.inputs import fake_inputs, fake_mode, parse_inputs
from tilesight.capture.subject import with_fake_weights
from tilesight.targets import target as find_target

HERE = Path(__file__).resolve()
ROADS = ("alone", "observed")
SUBJECTS: dict[str, bool] = {
    "gelu_mlp": False,
    "TransformerBlock": False,
    "TransformerBlock backward": True,
    "gpt2": False,
    "gpt2 backward": True,
}
"""What is compiled → with its backward graphs. GPT-2 is whole: twelve layers of the published size."""


def subject_of(name: str) -> tuple[Callable[..., Any], str]:
    """(function or module without memory for weights, its inputs as a text)"""
    short = name.split()[0]
    if short in MODELS:
        return MODELS[short].step(), MODELS[short].inputs
    found: Any = getattr(cases, short)
    with torch.device("meta"):
        return (found() if isinstance(found, type) else found), cases.INPUTS[short]


def compile_alone(function: Callable[..., Any], inputs: str, target: str, *, backward: bool) -> None:
    """torch.compile up to the generated code of every graph, for a pretended GPU; nothing is kept."""
    mode = fake_mode()
    if isinstance(function, torch.nn.Module):
        function = with_fake_weights(function, mode, is_trained=backward)
    fakes = fake_inputs(mode, parse_inputs(inputs))
    if backward:
        ask_gradients(fakes)
    lowering: Any = import_module("torch._inductor.graph")
    functorch: Any = import_module("torch._functorch.config")
    compile_fx: Any = import_module("torch._inductor.compile_fx")

    def generate(self: Any) -> Any:
        self.codegen()
        runner = types.SimpleNamespace(partitions=[], recursively_apply_fns=lambda functions: None)
        return types.SimpleNamespace(call=None, runner=runner, __file__="", key="")

    def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        compile_fx.compile_fx(graph_module, example_inputs)
        return graph_module.forward

    with (
        pretend(find_target(target)),
        reproducible_config(),
        quiet(),
        nothing_timed([]),  # there is no GPU to time a padded product on
        patch.object(lowering.GraphLowering, "compile_to_module", generate),
        functorch.patch(force_non_lazy_backward_lowering=backward),
        mode,
        torch.set_grad_enabled(backward),
    ):
        torch.compile(function, backend=backend)(*fakes)


def observe(function: Callable[..., Any], inputs: str, target: str, *, backward: bool) -> None:
    """All that `tilesight.observe` does."""
    seen = tilesight.observe(function, inputs, target=target, backward=backward)
    if not seen.kernels:
        raise RuntimeError(f"nothing was compiled: {seen.notes}")


def work(name: str, road: str, target: str) -> dict[str, float]:
    """One sample in this process: wall and processor seconds."""
    function, inputs = subject_of(name)
    import_module("torch._inductor.compile_fx")
    import_module("tilesight.roads.observe")
    run = observe if road == "observed" else compile_alone
    start, cpu_start = time.perf_counter(), time.process_time()
    run(function, inputs, target, backward=SUBJECTS[name])
    return {"wall_s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu_start}


def sample(name: str, road: str, target: str) -> dict[str, float]:
    """One sample in a process of its own, with its peak memory."""
    command = [sys.executable, str(HERE), "--subjects", name, "--here", road, "--target", target]
    with tempfile.TemporaryDirectory() as folder:
        taken: Sample = run_process(command, with_empty_caches(folder))
    return {**json.loads(taken.output.splitlines()[-1]), "peak_rss_bytes": taken.peak_rss_bytes}


def summarize_subject(taken: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians of both roads, and observed over alone: of wall time, of processor time, of peak memory."""
    summaries = {
        road: {key: summarize([each[key] for each in samples]) for key in samples[0]} for road, samples in taken.items()
    }
    ratios = {
        f"ratio_of_{key}": summaries["observed"][key]["median"] / summaries["alone"][key]["median"]
        for key in ("wall_s", "cpu_s", "peak_rss_bytes")
    }
    return {**summaries, **ratios, "samples": taken}


def show(name: str, seen: dict[str, Any]) -> str:
    walls = (seen[road]["wall_s"]["median"] for road in ROADS)
    alone, observed = walls
    return (
        f"{name}: alone {alone:.2f} s, observed {observed:.2f} s, {seen['ratio_of_wall_s']:.3f}x "
        f"({seen['ratio_of_cpu_s']:.3f}x of processor time), memory {seen['ratio_of_peak_rss_bytes']:.3f}x"
    )


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="fresh processes of each subject and road")
    parser.add_argument("--subjects", nargs="+", default=list(SUBJECTS), choices=list(SUBJECTS))
    parser.add_argument("--target", default="h200", help="the GPU that is compiled for")
    parser.add_argument("--here", choices=ROADS, help="one sample in this process")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    if options.here:
        print(json.dumps(work(options.subjects[0], options.here, options.target)))
        return
    taken: dict[str, dict[str, list[dict[str, float]]]] = {
        name: {road: [] for road in ROADS} for name in options.subjects
    }
    load = os.getloadavg()[0]
    for _ in range(options.runs):
        for name, roads in taken.items():
            for road, samples in roads.items():
                samples.append(sample(name, road, options.target))
    measured = {name: summarize_subject(roads) for name, roads in taken.items()}
    for name, seen in measured.items():
        print(show(name, seen), flush=True)
    result = {"target": options.target, "runs": options.runs, "load_average": load, "subjects": measured}
    print(f"written to {write_result('observing_cost', arguments, result)}")


if __name__ == "__main__":
    main(sys.argv[1:])
