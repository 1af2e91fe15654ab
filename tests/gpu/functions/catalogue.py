"""Every sample of every family."""

from __future__ import annotations

from importlib import import_module

from tests.gpu.functions.sample import Sample, samples_of

FAMILIES = (
    "pointwise", "reductions", "norms", "matmuls", "indexing", "random_numbers", "images", "attentions",
    "low_precision", "operators", "collectives",
)  # fmt: skip


def catalogue() -> dict[str, Sample]:
    """Samples by name, such as `norms.softmax backward`."""
    found: dict[str, Sample] = {}
    for family in FAMILIES:
        found |= samples_of(import_module(f"tests.gpu.functions.{family}"))
    return found
