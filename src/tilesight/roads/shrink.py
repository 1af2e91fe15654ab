"""The smallest sizes at which a case still fails, as hypothesis finds them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from tilesight.roads.shapes import Sizes

MOST_RUNS = 60
MOST_SECONDS = 10.0
"""Where compiling and running take longer than that, the case is left as it was found."""
CLOSER = 8
"""Candidates between a size that fails and the next smaller one that does not."""


def shrink_sizes(failing: Sizes, fails: Callable[[Sizes], bool]) -> Sizes:
    """The failing sizes with each symbol made as small as it can be, one symbol after another.

    At most MOST_RUNS runs and MOST_SECONDS; when they are used up, the smallest sizes seen so far.

    Args:
        failing: sizes at which `fails` holds
        fails: runs the case at other sizes
    """
    budget = _Budget(fails)
    smallest = dict(failing)
    for symbol in sorted(smallest, key=smallest.__getitem__, reverse=True):
        smallest = _shrink_symbol(smallest, symbol, budget)
    return smallest


class _Budget:
    """Answers from memory, and with False when runs or time are used up."""

    def __init__(self, fails: Callable[[Sizes], bool]) -> None:
        self._fails = fails
        self._known: dict[tuple[tuple[int, int], ...], bool] = {}
        self._until = monotonic() + MOST_SECONDS

    def fails(self, sizes: Sizes) -> bool:
        key = tuple(sizes.items())
        if key not in self._known:
            is_spent = len(self._known) >= MOST_RUNS or monotonic() > self._until
            self._known[key] = not is_spent and self._fails(sizes)
        return self._known[key]


def _shrink_symbol(sizes: Sizes, symbol: int, budget: _Budget) -> Sizes:
    """First over candidates spread out to the failing size, then ever closer below the one found."""
    found, candidates = sizes[symbol], _candidates(sizes[symbol])
    while True:
        found = _smallest(candidates, lambda size: budget.fails({**sizes, symbol: size}), found)
        below = max((size for size in candidates if size < found), default=-1)
        if found - below <= 1:
            return {**sizes, symbol: found}
        step = -(-(found - below) // CLOSER)
        candidates = [*range(below + 1, found, step), found]


def _candidates(size: int) -> list[int]:
    """0, one more than each power of two, and the size itself: ascending."""
    near = {(1 << exponent) + 1 for exponent in range(size.bit_length())}
    return sorted(value for value in {0, 1, *near, size} if value <= size)


def _smallest(candidates: list[int], fails: Callable[[int], bool], known: int) -> int:
    """The first candidate, by hypothesis's order, that fails; `known` when it comes upon none."""
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis import strategies as st
    from hypothesis.errors import HypothesisException

    quiet = settings(
        max_examples=MOST_RUNS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    try:
        return find(st.sampled_from(candidates), lambda size: size == known or fails(size), settings=quiet)
    except HypothesisException:
        return known
