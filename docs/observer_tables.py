"""The tables of docs/observer.md."""

from __future__ import annotations

from collections import Counter

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
