"""Quantiles, the interval of a ratio, and the verdict on two runs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.runs import case, run, timed
from tilesight.bench.statistics import compare_runs, quantiles, ratio_interval, verdict_of


def test_quantiles_are_linear_between_samples() -> None:
    assert quantiles([float(value) for value in range(11)]) == (1.0, 5.0, 9.0)
    assert quantiles([7.0]) == (7.0, 7.0, 7.0)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.8, 0.98, "faster"), (0.8, 0.995, "same"), (1.02, 1.5, "slower"), (1.005, 1.5, "same"), (0.9, 1.1, "same")],
)
def test_only_an_interval_that_is_clear_of_one_is_a_change(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high) == verdict


def test_the_interval_holds_the_ratio_and_narrows_with_the_noise() -> None:
    random = np.random.default_rng(3)
    quiet, loud = ((1 + noise * random.standard_normal(40)).tolist() for noise in (0.002, 0.2))
    narrow, wide = (ratio_interval(each, [1.1 * value for value in each]) for each in (quiet, loud))
    assert narrow[0] < 1.1 < narrow[1] and narrow[1] - narrow[0] < 0.01
    assert wide[1] - wide[0] > 0.05


def test_two_runs_against_each_other() -> None:
    steady, half, noisy = [2e-6] * 9, [1e-6] * 9, [1e-6, 1.9e-6, 4e-6, 1.2e-6, 3.1e-6]
    before = run(case(timed("eager", steady), timed("hand", steady), timed("compiled", noisy)), number=1)
    after = run(case(timed("eager", steady), timed("hand", half), timed("compiled", noisy[::-1])), number=2)
    more = run(*after.cases, case(timed("hand", half), shape=(7,)))
    diff = compare_runs(before, more)
    assert [(each.provider, each.verdict) for each in diff.changes] == [
        ("eager", "same"), ("hand", "faster"), ("compiled", "same"),
    ]  # fmt: skip
    assert diff.changes[1].ratio == 0.5
    assert (diff.only_before, diff.only_after) == ((), ("softmax 7 bfloat16 hand",))
