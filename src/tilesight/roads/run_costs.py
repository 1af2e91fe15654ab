"""What the runs of a matrix cost: sizes at which one run would take long are known before they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tilesight.roads.shapes import LARGE, PRIMES, Sizes

MOST_STEPS = 10_000
"""Loads, stores and atomics that the engine executes one after another in a run that nobody asked for, each for all
programs that run together: about four seconds under the sanitizer. A loop over rows makes as many as it has rounds."""


@dataclass
class RunCosts:
    """Steps of the runs so far, by the sizes of the case's symbols; steps grow with a size in proportion.

    Args:
        own: the case's own sizes
    """

    own: Sizes
    _seen: list[tuple[Sizes, int]] = field(default_factory=list[tuple[Sizes, int]])

    def note(self, sizes: Sizes | None, steps: int) -> None:
        """Remember a run that came to its end."""
        if sizes is not None and steps:
            self._seen.append((sizes, steps))

    def expected(self, sizes: Sizes) -> float:
        """The steps of a run, from the case's own sizes and from runs that changed one of them alone; 0: not known."""
        steps = float(next((seen for each, seen in self._seen if each == self.own), 0))
        for symbol, size in sizes.items():
            if steps and size != self.own[symbol]:
                steps += self._growth(symbol) * (size - self.own[symbol])
        return steps

    def _growth(self, symbol: int) -> float:
        """Steps for one more of a size, from the two largest that were tried of it alone."""
        alone = {sizes[symbol]: steps for sizes, steps in self._seen if not self._changed(sizes) - {symbol}}
        if len(alone) < 2:
            return 0.0
        small, large = sorted(alone)[-2:]
        return max(0.0, (alone[large] - alone[small]) / (large - small))

    def _changed(self, sizes: Sizes) -> set[int]:
        return {symbol for symbol, size in sizes.items() if size != self.own[symbol]}

    def affordable(self, sizes: Sizes) -> Sizes | None:
        """These sizes with the one that costs most made smaller, as far as it has to be; None where that is in vain."""
        dearest = max(self._changed(sizes), key=lambda symbol: self._growth(symbol) * sizes[symbol], default=None)
        if dearest is None:
            return None
        smaller = ({**sizes, dearest: size} for size in _smaller(sizes[dearest], self.own[dearest]))
        return next((each for each in smaller if self.expected(each) <= MOST_STEPS), None)


def _smaller(size: int, least: int) -> Iterator[int]:
    """The primes of the matrix between two sizes, from the largest down."""
    primes: Iterable[int] = sorted({*LARGE, *PRIMES}, reverse=True)
    return (prime for prime in primes if least < prime < size)
