"""What values integers can have, whatever the shapes and the grid: bounds that hold in every launch.

Program ids are not negative, ranges and loops have their ends, a remainder is below its divisor;
scalar arguments may be anything. Index arithmetic is taken not to wrap around, which is a fault of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tilesight.checks.slices import flow_of
from tilesight.ir.module import DenseElements, Module, Operation, Value
from tilesight.ir.types import IntegerType, TensorType, element_type

LARGEST_COORDINATE = 2**31 - 2
LARGEST_FACTOR = 1 << 20
"""A factor beyond the lanes of the largest block belongs to a hash or a random number, which wrap on purpose."""

MOST_ASSUMPTIONS = 2

Bounds = Mapping[Value, int]
NO_BOUNDS: Bounds = {}


@dataclass(frozen=True)
class Interval:
    """Every lane lies from `low` to `high`, and from `base + c` (at_least) to `base + c` (at_most) of scalars."""

    low: int
    high: int
    at_least: Bounds = field(default_factory=dict[Value, int])
    at_most: Bounds = field(default_factory=dict[Value, int])

    @property
    def is_constant(self) -> bool:
        return self.low == self.high

    def shifted(self, low: int, high: int) -> Interval:
        """The interval after something from `low` to `high` was added."""
        at_least = {base: bound + low for base, bound in self.at_least.items()}
        at_most = {base: bound + high for base, bound in self.at_most.items()}
        return Interval(self.low + low, self.high + high, at_least, at_most)

    def joined(self, other: Interval) -> Interval:
        """What holds of both."""
        return Interval(
            min(self.low, other.low),
            max(self.high, other.high),
            {base: min(bound, other.at_least[base]) for base, bound in self.at_least.items() if base in other.at_least},
            {base: max(bound, other.at_most[base]) for base, bound in self.at_most.items() if base in other.at_most},
        )

    def is_below(self, other: Interval, gap: int = 1) -> bool:
        """Whether every lane is at least `gap` below every lane of the other."""
        if self.high + gap <= other.low:
            return True
        return any(
            bound + gap <= other.at_least[base] for base, bound in self.at_most.items() if base in other.at_least
        )


class Intervals:
    """The intervals of a module's integers, found when asked for.

    Args:
        module: whose values
        assumed: what is taken to be known of some of them
        depth: how many assumptions are made at once
    """

    def __init__(self, module: Module, assumed: Mapping[Value, Interval] | None = None, depth: int = 0) -> None:
        self._module = module
        self._flow = flow_of(module)
        self._loops = _loops_of_inductions(module)
        self._known: dict[Value, Interval] = dict(assumed or {})
        self._depth = depth
        self._open: set[Value] = set()
        self._rough: dict[Value, Interval] = {}

    def of(self, value: Value) -> Interval:
        """The interval of a value; that of its type where nothing better is known."""
        known = self._known.get(value) or self._rough.get(value)
        if known is not None:
            return known
        if value in self._open:
            return _full(value)
        self._open.add(value)
        found = _clamped(self._find(value), value)
        self._open.discard(value)
        if self._open:
            self._rough[value] = found  # it may rest on a value of a round trip that is not known yet
        else:
            self._known[value] = found
            self._rough.clear()
        return found

    def _find(self, value: Value) -> Interval:
        operation = self._flow.definitions.get(value)
        if operation is not None and operation.name in TRANSFERS:
            return self._with_itself(value, TRANSFERS[operation.name](operation, self))
        if value in self._loops:
            return self._with_itself(value, self._of_induction(self._loops[value]))
        sources = self._flow.sources.get(value, ())
        return self._with_itself(value, self._of_sources(value, sources) if sources else _full(value))

    def _with_itself(self, value: Value, found: Interval) -> Interval:
        """A scalar is a bound of what is computed from it."""
        if isinstance(value.type, TensorType):
            return found
        return Interval(found.low, found.high, {**found.at_least, value: 0}, {**found.at_most, value: 0})

    def _of_induction(self, loop: Operation) -> Interval:
        """From the lower bound to below the upper one, for a step that is positive."""
        lower, upper, step = (self.of(bound) for bound in loop.operands[:3])
        if step.low <= 0:
            return _full(loop.operands[0])
        last = upper.shifted(-1, -1)
        return Interval(lower.low, last.high, lower.at_least, last.at_most)

    def _of_sources(self, value: Value, sources: tuple[Value, ...]) -> Interval:
        """What all sources have in common; of a carried value first without the round trip, then checked with it."""
        first, *others = (self.of(source) for source in sources)
        joined = first
        for other in others:
            joined = joined.joined(other)
        if joined.low >= first.low or self._depth == MOST_ASSUMPTIONS:
            return joined
        return self._carried(value, first, sources[1:]) or joined

    def _carried(self, value: Value, first: Interval, others: tuple[Value, ...]) -> Interval | None:
        """A carried value that only grows never falls below what it began with."""
        guess = Interval(first.low, _full(value).high)
        tried = Intervals(self._module, {**self._known, value: guess}, self._depth + 1)
        return guess if all(tried.of(other).low >= first.low for other in others) else None


@lru_cache(maxsize=64)
def _loops_of_inductions(module: Module) -> Mapping[Value, Operation]:
    loops = (inner for inner in module.walk() if inner.name == "scf.for")
    return {loop.regions[0].entry.arguments[0]: loop for loop in loops}


def _full(value: Value) -> Interval:
    element = element_type(value.type)
    bits = element.bits if isinstance(element, IntegerType) else 64
    return Interval(0, 1) if bits == 1 else Interval(-(1 << bits - 1), (1 << bits - 1) - 1)


def _clamped(found: Interval, value: Value) -> Interval:
    full = _full(value)
    low, high = max(full.low, min(found.low, full.high)), min(full.high, max(found.high, full.low))
    return Interval(low, high, found.at_least, found.at_most)


Transfer = Callable[[Operation, Intervals], Interval]


def _constant(operation: Operation, intervals: Intervals) -> Interval:
    value = operation.attributes["value"]
    numbers = value.values if isinstance(value, DenseElements) else (value,)
    integers = [number for number in numbers if isinstance(number, int)]
    if not integers or len(integers) < len(numbers):
        return _full(operation.results[0])
    return Interval(int(min(integers)), int(max(integers)))


def _range(operation: Operation, intervals: Intervals) -> Interval:
    start, end = operation.attributes["start"], operation.attributes["end"]
    assert isinstance(start, int) and isinstance(end, int)
    return Interval(start, end - 1)


def _same(operation: Operation, intervals: Intervals) -> Interval:
    """All operands together: lanes move, numbers stay."""
    first, *others = (intervals.of(operand) for operand in operation.operands)
    for other in others:
        first = first.joined(other)
    return first


def _first(operation: Operation, intervals: Intervals) -> Interval:
    return intervals.of(operation.operands[0])


def _if_not_negative(operation: Operation, intervals: Intervals) -> Interval:
    source = intervals.of(operation.operands[0])
    return source if source.low >= 0 else _full(operation.results[0])


def _truncated(operation: Operation, intervals: Intervals) -> Interval:
    source, full = intervals.of(operation.operands[0]), _full(operation.results[0])
    return source if full.low <= source.low and source.high <= full.high else full


def _added(operation: Operation, intervals: Intervals) -> Interval:
    left, right = (intervals.of(operand) for operand in operation.operands)
    one, other = left.shifted(right.low, right.high), right.shifted(left.low, left.high)
    return Interval(one.low, one.high, {**one.at_least, **other.at_least}, {**one.at_most, **other.at_most})


def _subtracted(operation: Operation, intervals: Intervals) -> Interval:
    left, right = (intervals.of(operand) for operand in operation.operands)
    return left.shifted(-right.high, -right.low)


def _multiplied(operation: Operation, intervals: Intervals) -> Interval:
    left, right = (intervals.of(operand) for operand in operation.operands)
    factors = [side for side in (left, right) if side.is_constant]
    if any(abs(factor.low) > LARGEST_FACTOR for factor in factors):
        return _full(operation.results[0])
    return _corners(left, right, lambda a, b: a * b)


def _shifted_left(operation: Operation, intervals: Intervals) -> Interval:
    left, right = (intervals.of(operand) for operand in operation.operands)
    if not right.is_constant or not 0 <= right.low <= 20:
        return _full(operation.results[0])
    return Interval(left.low << right.low, left.high << right.low)


def _corners(left: Interval, right: Interval, function: Callable[[int, int], int]) -> Interval:
    corners = [function(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return Interval(min(corners), max(corners))


def _divided(operation: Operation, intervals: Intervals) -> Interval:
    left, right = (intervals.of(operand) for operand in operation.operands)
    if left.low < 0 or right.high < 1:
        return _full(operation.results[0])
    return Interval(0 if right.low < 1 else left.low // right.high, left.high // max(1, right.low))


def _remainder(operation: Operation, intervals: Intervals) -> Interval:
    """Below the divisor, which is a size and so not negative, whatever is divided; of its sign or zero."""
    left, right = (intervals.of(operand) for operand in operation.operands)
    if right.high < 1:
        return _full(operation.results[0])
    below = right.shifted(-1, -1)
    if left.low >= 0:
        return Interval(0, min(left.high, below.high), NO_BOUNDS, {**left.at_most, **below.at_most})
    low, high = max(left.low, -below.high), min(max(left.high, 0), below.high)
    return Interval(low, high, NO_BOUNDS, below.at_most)


def _shifted_right(operation: Operation, intervals: Intervals) -> Interval:
    left, right = (intervals.of(operand) for operand in operation.operands)
    if left.low < 0 or right.low < 0:
        return _full(operation.results[0])
    return Interval(left.low >> min(right.high, 64), left.high >> right.low)


def _both_bits(operation: Operation, intervals: Intervals) -> Interval:
    sides = [intervals.of(operand) for operand in operation.operands]
    highs = [side.high for side in sides if side.low >= 0]
    return Interval(0, min(highs)) if highs else _full(operation.results[0])


def _either_bits(operation: Operation, intervals: Intervals) -> Interval:
    sides = [intervals.of(operand) for operand in operation.operands]
    if any(side.low < 0 for side in sides):
        return _full(operation.results[0])
    return Interval(0, (1 << max(side.high for side in sides).bit_length()) - 1)


def _smaller(operation: Operation, intervals: Intervals) -> Interval:
    left, right = (intervals.of(operand) for operand in operation.operands)
    at_least = left.joined(right).at_least
    return Interval(min(left.low, right.low), min(left.high, right.high), at_least, {**left.at_most, **right.at_most})


def _larger(operation: Operation, intervals: Intervals) -> Interval:
    left, right = (intervals.of(operand) for operand in operation.operands)
    at_most = left.joined(right).at_most
    return Interval(max(left.low, right.low), max(left.high, right.high), {**left.at_least, **right.at_least}, at_most)


def _unsigned(transfer: Transfer) -> Transfer:
    """The signed rule, for operands that are not negative."""

    def apply(operation: Operation, intervals: Intervals) -> Interval:
        if any(intervals.of(operand).low < 0 for operand in operation.operands):
            return _full(operation.results[0])
        return transfer(operation, intervals)

    return apply


def _chosen(operation: Operation, intervals: Intervals) -> Interval:
    return intervals.of(operation.operands[1]).joined(intervals.of(operation.operands[2]))


MOVES = ("broadcast", "cat", "expand_dims", "join", "reshape", "splat", "split", "trans", "unsplat")
TRANSFERS: dict[str, Transfer] = {
    "arith.constant": _constant,
    "tt.get_program_id": lambda operation, intervals: Interval(0, LARGEST_COORDINATE),
    "tt.get_num_programs": lambda operation, intervals: Interval(1, LARGEST_COORDINATE + 1),
    "tt.make_range": _range,
    **{f"tt.{name}": _same for name in MOVES},
    "tt.gather": _first,
    "arith.extsi": _first,
    "arith.index_cast": _truncated,
    "arith.extui": _if_not_negative,
    "arith.trunci": _truncated,
    "arith.addi": _added,
    "arith.subi": _subtracted,
    "arith.muli": _multiplied,
    "arith.shli": _shifted_left,
    "arith.divsi": _divided,
    "arith.divui": _unsigned(_divided),
    "arith.floordivsi": _divided,
    "arith.remsi": _remainder,
    "arith.remui": _unsigned(_remainder),
    "arith.shrsi": _shifted_right,
    "arith.shrui": _shifted_right,
    "arith.andi": _both_bits,
    "arith.ori": _either_bits,
    "arith.xori": _either_bits,
    "arith.minsi": _smaller,
    "arith.maxsi": _larger,
    "arith.minui": _unsigned(_smaller),
    "arith.maxui": _unsigned(_larger),
    "arith.select": _chosen,
}
