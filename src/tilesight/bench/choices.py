"""Which of two is faster at a shape, by what a bench store measured on this device with these versions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilesight.bench.environment import environment_of
from tilesight.bench.groups import Key
from tilesight.bench.model import Environment
from tilesight.bench.statistics import sum_ratio_interval, verdict_of
from tilesight.bench.store import device_samples

SAME_VERSIONS = ("tilesight", "torch", "triton")
Samples = Mapping[str, tuple[float, ...]]
"""Provider → seconds of a call on the device."""


@dataclass(frozen=True)
class Choice:
    """What stands at one group.

    Args:
        keys: the bench operators and shapes that decide
        dtype: of the group
        winner: `hand` where ours measured faster, else `inductor`
        reason: the ratio of the times, ours over Inductor's, with its 95% interval; or what is missing
    """

    keys: tuple[Key, ...]
    dtype: str
    winner: Literal["hand", "inductor"]
    reason: str
    is_measured: bool

    def __str__(self) -> str:
        names = " + ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in self.keys)
        return f"{self.winner:9} {names} {self.dtype}: {self.reason}"


class Choices:
    """The measurements of a store that were made on this device with these versions; none where there is no store.

    Args:
        device: `cuda` or `cpu`
        provider: whom ours are held against: `compiled`, or `compiled_max` for max-autotune
    """

    def __init__(self, store: str | os.PathLike[str], device: str, provider: str = "compiled") -> None:
        self.provider = provider
        here = environment_of(device, "")
        path = Path(store)
        self._samples = device_samples(path, lambda each: is_same(each, here)) if path.is_file() else {}

    def choose(self, keys: Sequence[Key], dtype: str) -> Choice:
        """Ours where the sum of its medians is surely below Inductor's, and Inductor's otherwise."""
        found = [self._samples.get((name, shape, dtype), {}) for name, shape in keys]
        both = ("hand", self.provider)
        if not all(provider in samples for samples in found for provider in both):
            return Choice(tuple(keys), dtype, "inductor", "not measured here", False)
        ours, theirs = ([samples[provider] for samples in found] for provider in both)
        ratio, low, high = sum_ratio_interval(theirs, ours)
        is_faster = verdict_of(low, high) == "faster"
        reason = f"{ratio:.2f} of its time ({low:.2f} to {high:.2f})"
        return Choice(tuple(keys), dtype, "hand" if is_faster else "inductor", reason, True)


def is_same(one: Environment, other: Environment) -> bool:
    """Whether times of one hold for the other."""
    versions = [[each.versions.get(name) for name in SAME_VERSIONS] for each in (one, other)]
    return one.device == other.device and versions[0] == versions[1]
