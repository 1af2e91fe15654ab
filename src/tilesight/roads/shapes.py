"""The shapes of the correctness matrix: each size of a case varied where kernels break."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from math import prod

PRIMES = (7, 97, 257, 1009)
LARGE = (65_537, 16_411, 4_099, 2_053)
"""Primes, of which the largest that stays under MOST_ELEMENTS is taken."""
MOST_ELEMENTS = 1 << 20
MOST_ROUNDS = 1 << 9
"""Of a loop over a size that no output has, with the smallest block: what a large prime is bounded by."""
MOST_SHAPES = 40
MOST_PAIRS = 8
MOST_BLOCKS = 3
SMALLEST_BLOCK, LARGEST_BLOCK = 4, 1 << 16

Shapes = tuple[tuple[int, ...], ...]
Sizes = dict[int, int]
"""The size that each symbol is given."""


@dataclass(frozen=True)
class Symbols:
    """Which sizes of a case vary together: equal sizes are one symbol, sizes of 1 stay as they are.

    Args:
        shapes: the case's own
        limits: the upper limit of each input's integers, None where it has none; one that equals a
            size follows it
    """

    shapes: Shapes
    limits: tuple[int | None, ...] = ()

    @property
    def own(self) -> Sizes:
        """Each symbol, named for its size in the case, with that size."""
        return {size: size for shape in self.shapes for size in shape if size > 1}

    def with_sizes(self, sizes: Sizes) -> Shapes:
        """The shapes when symbols are given other sizes."""
        return tuple(tuple(sizes.get(size, size) for size in shape) for shape in self.shapes)

    def limits_with(self, sizes: Sizes) -> tuple[int | None, ...]:
        """The integers' limits when symbols are given other sizes."""
        return tuple(None if limit is None else sizes.get(limit, limit) for limit in self.limits)

    def make_sense(self, sizes: Sizes) -> bool:
        """Whether every tensor of limited integers can be filled: no element has to be below 0."""
        pairs = zip(self.with_sizes(sizes), self.limits_with(sizes), strict=False)
        return all(limit != 0 or prod(shape) == 0 for shape, limit in pairs)

    def elements(self, sizes: Sizes) -> int:
        """What a case of these sizes costs: the product of its symbols, a square one's size squared."""
        own = self.own
        powers = {symbol: max(shape.count(symbol) for shape in self.shapes) for symbol in own}
        return prod(sizes.get(symbol, symbol) ** powers[symbol] for symbol in own)


def block_sizes(constexprs: Iterable[dict[str, object]]) -> tuple[int, ...]:
    """The block sizes among launches' constexprs: powers of two, at most MOST_BLOCKS of them."""
    found = {
        value
        for each in constexprs
        for value in each.values()
        if isinstance(value, int) and SMALLEST_BLOCK <= value <= LARGEST_BLOCK and value & (value - 1) == 0
    }
    return tuple(sorted(found)[-MOST_BLOCKS:])


def plan_sizes(symbols: Symbols, blocks: Sequence[int], summed: Collection[int] = ()) -> list[Sizes]:
    """What each symbol is in every case of the matrix, smallest first, at most MOST_SHAPES.

    Each symbol alone is 0, 1, around every block, twice a block and one more, odd primes and large, while
    the others keep their size (smaller where the case would grow over MOST_ELEMENTS); then pairs of
    symbols are at their extremes together. The case's own sizes are always among them.

    Args:
        blocks: what `block_sizes` found
        summed: symbols that no output has; loops run over them, and a large prime makes MOST_ROUNDS at most
    """
    own = symbols.own
    columns = [[{symbol: value} for value in _values(blocks)] for symbol in own]
    alone = [change for row in zip_longest(*columns) for change in row if change is not None]
    bounds = {symbol: MOST_ROUNDS * min(blocks, default=LARGEST_BLOCK) for symbol in summed}
    large = [{symbol: value} for symbol in own for value in _large_of(symbols, symbol, bounds.get(symbol, LARGE[0]))]
    pairs = list(_pairs(list(own), blocks))[:MOST_PAIRS]
    room = MOST_SHAPES - 1 - len(large) - len(pairs)
    changes = [*alone[: max(room, 0)], *large, *pairs]
    planned = [own, *(_around(symbols, change) for change in changes)]
    unique = {symbols.with_sizes(sizes): sizes for sizes in planned if symbols.make_sense(sizes)}
    fitting = [sizes for sizes in unique.values() if sizes == own or symbols.elements(sizes) <= 2 * MOST_ELEMENTS]
    return sorted(fitting, key=lambda sizes: order_of(symbols.with_sizes(sizes)))[:MOST_SHAPES]


def order_of(shapes: Shapes) -> tuple[int, Shapes]:
    """Sorts shapes from few elements to many."""
    return sum(prod(shape) for shape in shapes), shapes


def _values(blocks: Sequence[int]) -> list[int]:
    """A symbol's sizes, the most telling first."""
    around = [[block + 1, block - 1, block, 2 * block + 1] for block in blocks]
    near = [value for row in zip(*around, strict=True) for value in row]
    return list(dict.fromkeys([1, 0, 7, *near, *PRIMES]))


def _large_of(symbols: Symbols, symbol: int, bound: int) -> list[int]:
    """The largest prime up to a bound at which the case stays under MOST_ELEMENTS, the others as planned."""
    fitting = (value for value in LARGE if symbols.elements(_around(symbols, {symbol: value})) <= MOST_ELEMENTS)
    return [value for value in fitting if symbol < value <= bound][:1]


def _pairs(symbols: Sequence[int], blocks: Sequence[int]) -> Iterator[Sizes]:
    tail = max(blocks, default=LARGEST_BLOCK >> 8) + 1
    for one, other in combinations(symbols, 2):
        yield {one: 1, other: 1}
        yield {one: 1, other: tail}
        yield {one: tail, other: 1}
        yield {one: PRIMES[0], other: PRIMES[1]}


def _around(symbols: Symbols, change: Sizes) -> Sizes:
    """The case's sizes with a change; the unchanged ones are halved while the case is too large."""
    sizes = {**symbols.own, **change}
    while symbols.elements(sizes) > MOST_ELEMENTS:
        left = [symbol for symbol in sizes if symbol not in change and sizes[symbol] > 1]
        if not left:
            break
        widest = max(left, key=sizes.__getitem__)
        sizes[widest] //= 2
    return sizes
