"""A plot of one operator: its rate over the shapes, a line a provider, the roof drawn."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tilesight.bench.model import BenchCase, Environment
from tilesight.report.catalogue import Catalogue

COLOURS = {"eager": "#8a8f98", "compiled": "#2f6fb5", "compiled_max": "#79a8dc", "hand": "#c2541d"}
PEERS = ("#4a8f3c", "#8d5bb0", "#b08c2f", "#3b9c9c", "#b04a6a")
SIZE = (8.0, 3.6)


def plot_of(words: Catalogue, cases: Sequence[BenchCase], environment: Environment) -> str:
    """An SVG text: GB/s, or TFLOP/s where the operator has FLOPs, over the shapes in the order of the run."""
    matplotlib: Any = import_module("matplotlib")
    figures: Any = import_module("matplotlib.figure")

    names = list(dict.fromkeys(each.provider for case in cases for each in case.measured if each.timing))
    peers = [name for name in names if name not in COLOURS]
    colours = {**COLOURS, **{name: PEERS[place % len(PEERS)] for place, name in enumerate(peers)}}
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "tilesight", "font.family": "DejaVu Sans"}):
        figure = figures.Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        for name in names:
            _line(axes, cases, name, colours[name])
        if environment.is_gpu and environment.copy_gb_per_s and cases[0].flops is None:
            axes.axhline(environment.copy_gb_per_s, color="#444444", linestyle="--", linewidth=1, label="copy")
        _label(axes, cases)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    return file.getvalue()[file.getvalue().index("<svg") :]


def _line(axes: Any, cases: Sequence[BenchCase], name: str, colour: str) -> None:
    places: list[int] = []
    rates: list[float] = []
    for place, case in enumerate(cases):
        timing = next((each.timing for each in case.measured if each.provider == name), None)
        if timing is not None:
            places.append(place)
            tflops = case.tflop_per_s(timing)
            rates.append(case.gb_per_s(timing) if tflops is None else tflops)
    width = 2.2 if name == "hand" else 1.3
    axes.plot(places, rates, marker="o", markersize=3.5, linewidth=width, color=colour, label=name)


def _label(axes: Any, cases: Sequence[BenchCase]) -> None:
    labels = ["×".join(map(str, case.shape)) for case in cases]
    axes.set_xticks(range(len(cases)), labels, rotation=30, ha="right", fontsize=7.5)
    axes.set_ylabel("GB/s" if cases[0].flops is None else "TFLOP/s")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, ncols=2)
