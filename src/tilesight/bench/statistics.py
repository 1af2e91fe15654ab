"""What samples say: quantiles, and whether two sets of them differ by more than their noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tilesight.bench.model import BenchCase, BenchDiff, BenchRun, Change, Timing, described

SMALLEST = 0.01
"""A change of the median below this share is none, however sure it is."""
RESAMPLES = 2000
SEED = 0


def quantiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """(p10, p50, p90) of samples, linear between neighbours."""
    low, middle, high = np.quantile(np.asarray(samples), (0.1, 0.5, 0.9))
    return float(low), float(middle), float(high)


def ratio_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The 95% interval of median(after) / median(before), by the percentile bootstrap (Efron, 1979).

    Args: before, after: seconds, at least one each
    """
    _, low, high = sum_ratio_interval([before], [after])
    return low, high


def sum_ratio_interval(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]
) -> tuple[float, float, float]:
    """(ratio, low, high) of the sums of medians, after / before, with the 95% interval as `ratio_interval`.

    Args: before, after: of each part the samples, seconds
    """
    random = np.random.default_rng(SEED)
    medians = [sum(_resampled(samples, random) for samples in parts) for parts in (before, after)]
    low, high = np.quantile(medians[1] / medians[0], (0.025, 0.975))
    totals = [sum(float(np.median(samples)) for samples in parts) for parts in (before, after)]
    return totals[1] / totals[0], float(low), float(high)


def _resampled(samples: Sequence[float], random: np.random.Generator) -> Any:
    """Medians of samples drawn from the samples."""
    return np.median(random.choice(np.asarray(samples), (RESAMPLES, len(samples))), axis=1)


def verdict_of(low: float, high: float) -> Literal["faster", "slower", "same"]:
    """What an interval of the ratio after / before says."""
    if high < 1 - SMALLEST:
        return "faster"
    return "slower" if low > 1 + SMALLEST else "same"


def compare_runs(before: BenchRun, after: BenchRun) -> BenchDiff:
    """Every provider that both runs timed at the same operator, shape and dtype."""
    timed = [_timings(run) for run in (before, after)]
    both = [key for key in timed[0] if key in timed[1]]
    changes = tuple(_change(*timed[0][key], *timed[1][key]) for key in both)
    alone = [tuple(_name(key) for key in mine if key not in other) for mine, other in (timed, timed[::-1])]
    return BenchDiff(before, after, changes, *alone)


Key = tuple[str, tuple[int, ...], str, str]


def _timings(run: BenchRun) -> dict[Key, tuple[BenchCase, str, Timing]]:
    return {
        (*case.key, each.provider): (case, each.provider, each.timing)
        for case in run.cases
        for each in case.measured
        if each.timing is not None
    }


def _name(key: Key) -> str:
    operator, shape, dtype, provider = key
    return f"{described(operator, shape, dtype)} {provider}"


def _change(case: BenchCase, provider: str, before: Timing, _: BenchCase, __: str, after: Timing) -> Change:
    low, high = ratio_interval(before.device_s, after.device_s)
    medians = before.median_s, after.median_s
    verdict = verdict_of(low, high)
    return Change(*case.key, provider, *medians, medians[1] / medians[0], low, high, verdict)
