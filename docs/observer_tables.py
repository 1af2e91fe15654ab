"""The tables of docs/observer.md."""

from __future__ import annotations

from collections import Counter
from typing import Any

from figure_tables import made_with, result, table

FAMILIES = {
    "pointwise": "pointwise",
    "reductions": "reductions, scans, sorting",
    "norms": "norms, softmax, losses",
    "matmuls": "matrix products with what surrounds them",
    "attentions": "attention",
    "images": "convolutions, pooling, resampling",
    "indexing": "embeddings, gather and scatter, in-place, views",
    "low_precision": "fp8, int8, autocast",
    "operators": "custom operators, hand-written Triton kernels, control flow",
    "random_numbers": "random numbers, dropout",
    "collectives": "collectives",
}


def offline_code() -> str:
    record = result("offline_code")
    families = record["families"]
    rows = [(FAMILIES[name], families[name]["samples"], families[name].get("identical", 0)) for name in FAMILIES]
    rows.append(("**all**", record["samples"], record["identical"]))
    assert families.keys() == FAMILIES.keys()
    return (
        f"{record['functions']} functions and blocks in {record['samples']} samples, {record['graphs']} graphs; "
        f"{record['identical'] / record['samples']:.1%} are identical.\n\n"
        f"{table(['family', 'samples', 'identical'], rows)}\n\n{made_with(record)}; `{record['command']}`"
    )


def offline_differences() -> str:
    """The kinds of difference, with the samples that have each."""
    apart: dict[str, str] = result("offline_code")["apart"]
    rows = [
        (kind, times, ", ".join(f"`{name}`" for name, each in apart.items() if each == kind))
        for kind, times in Counter(apart.values()).most_common()
    ]
    return table(["kind of difference", "samples", "which"], rows)


def real_models() -> str:
    """What each model was cut into, what it moves, and what observing it took."""
    record = result("real_models")
    rows = [
        (f"{model['title']}, {model['batch']}", direction, *_model_cells(model[direction]))
        for model in record["models"].values()
        for direction in ("inference", "training")
        if direction in model
    ]
    head = ["model", "", "graphs", "breaks", "kernels", "eager, GB", "compiled, GB", "ideal, GB", "s", "GiB"]
    return f"{table(head, rows)}\n\n{made_with(record)}, transformers {record['transformers']}; `{record['command']}`"


def _model_cells(row: dict[str, Any]) -> tuple[object, ...]:
    if "failed" in row:
        return (f"failed: {row['failed']}", *[""] * 7)
    moved = (row[f"{road}_bytes"] for road in ("eager", "compiled", "ideal"))
    return (
        row["graphs"],
        len(row["breaks"]),
        f"{row['kernels']}, {row['different_triton_kernels']} different Triton",
        *("not measured" if count is None else f"{count / 1e9:.2f}" for count in moved),
        f"{row['wall_s']:.0f}",
        f"{row['peak_rss_bytes'] / 2**30:.2f}",
    )


def dearest_round_trips() -> str:
    """The three dearest round trips of each model."""
    rows = [
        (model["title"], direction, *[*map(_trip_text, model[direction].get("dearest", ())), "", "", ""][:3])
        for model in result("real_models")["models"].values()
        for direction in ("inference", "training")
        if direction in model
    ]
    return table(["model", "", "dearest", "second", "third"], rows)


def _trip_text(trip: dict[str, Any]) -> str:
    readers = [f"`{short_kernel(name)}`" for name in dict.fromkeys(trip["read_by"])]
    more = f" and {len(readers) - 2} more" if len(readers) > 2 else ""
    times = f"{trip['times']} x " if trip["times"] > 1 else ""
    return (
        f"{times}{trip['bytes'] / 1e6:.0f} MB: `{short_kernel(trip['written_by'])}` to {', '.join(readers[:2])}{more}"
    )


def short_kernel(name: str) -> str:
    """The end of a generated kernel's long name, which tells it from the others."""
    return name if len(name) <= 48 else f"{name[:28]}…{name[-16:]}"


def observing_cost() -> str:
    record = result("observing_cost")
    rows = [
        (
            name,
            f"{seen['alone']['wall_s']['median']:.2f}",
            f"{seen['observed']['wall_s']['median']:.2f}",
            f"{seen['ratio_of_wall_s']:.2f}x",
            f"{seen['ratio_of_cpu_s']:.2f}x",
            f"{seen['ratio_of_peak_rss_bytes']:.2f}x",
        )
        for name, seen in record["subjects"].items()
    ]
    head = ["compiled", "alone, s", "observed, s", "ratio", "ratio of processor time", "ratio of peak memory"]
    return (
        f"{table(head, rows)}\n\n{made_with(record)}, medians of {record['runs']} fresh processes each, load average "
        f"{record['load_average']:.1f} at the start; `{record['command']}`"
    )
