"""How many bytes of each buffer a scheduler node loads and stores: slices, masked parts and rows that are looked up.

Inductor's loops are walked with names in place of numbers. An index `100*d0 + d1 + 7` over d0 < 8, d1 < 4 names 32
elements; a load under `d1 < 2` names 16; one at a row that was loaded from memory names a row each time. Seen to work
on torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

from tilesight.capture.inductor.graph import Accessed

Limits = Mapping[Any, tuple[int, int]]
"""By loop variable: the values that it may take, from the first up to the second."""


@dataclass(frozen=True)
class _Value:
    """A value in a loop body: the loop variables that it depends on, and what is known of it.

    Args:
        expression: it as arithmetic over loop variables; None where it is not
        limits: where it is a condition, what loop variables are where it holds
        is_loaded: it is as it was loaded
    """

    variables: frozenset[Any] = frozenset()
    expression: Any = None
    limits: Limits = field(default_factory=dict[Any, tuple[int, int]])
    is_loaded: bool = False


@dataclass
class _Access:
    """One load or store: how many elements, and what tells it from others of the same buffer."""

    elements: int
    place: object
    is_chosen: bool


def accessed_by(node: Any, graph: Any) -> Accessed | None:
    """What a scheduler node, fused or not, touches of each buffer; None where its loops are not known.

    Args:
        node: Inductor's scheduler node
        graph: its GraphLowering, which knows sizes and dtypes
    """
    walks = [_walk(part, graph) for part in node.get_nodes()]
    known = [walk for walk in walks if walk is not None]
    if len(known) < len(walks):
        return None
    sides = [_together([side for walk in known for side in [getattr(walk, name)]]) for name in ("loads", "stores")]
    loads, stores = ({name: _bytes(name, found, graph) for name, found in side.items()} for side in sides)
    chosen = {name for side in sides for name, found in side.items() if any(each.is_chosen for each in found)}
    renamed = dict(getattr(graph.scheduler, "mutation_real_name", {}))
    chosen |= {renamed[name] for name in chosen if name in renamed}
    is_copy = all(walk.only_copies for walk in known)
    return Accessed(_with_real_names(loads, renamed), _with_real_names(stores, renamed), frozenset(chosen), is_copy)


def _with_real_names(counts: dict[str, int | None], renamed: Mapping[str, str]) -> dict[str, int]:
    known = {name: count for name, count in counts.items() if count is not None}
    return {**{renamed[name]: count for name, count in known.items() if name in renamed}, **known}


def _together(sides: Iterable[Mapping[str, list[_Access]]]) -> dict[str, list[_Access]]:
    found: dict[str, list[_Access]] = {}
    for side in sides:
        for name, accesses in side.items():
            found.setdefault(name, []).extend(accesses)
    return found


def _bytes(name: str, accesses: list[_Access], graph: Any) -> int | None:
    """Bytes of different accesses together; None for what is no tensor in memory."""
    try:
        item_bytes, held = graph.get_dtype(name).itemsize, _hint(graph, graph.get_numel(name))
    except (KeyError, NotImplementedError, AttributeError):
        return None
    places = {each.place: each.elements for each in accesses}
    return min(held, sum(places.values())) * item_bytes


def _hint(graph: Any, size: Any) -> int:
    """What a size is in this call."""
    if isinstance(size, int) or size.is_Integer:
        return int(size)
    sizes = graph.sizevars
    return int(sizes.optimization_hint(size) if hasattr(sizes, "optimization_hint") else sizes.size_hint(size))


@dataclass
class _Walk:
    """The loads and stores of one node by buffer, and whether all that it stores is what it loaded."""

    only_copies: bool = True
    loads: dict[str, list[_Access]] = field(default_factory=dict[str, list[_Access]])
    stores: dict[str, list[_Access]] = field(default_factory=dict[str, list[_Access]])


def _walk(part: Any, graph: Any) -> _Walk | None:
    """The loads and stores of one node's loops."""
    body, sizes = getattr(part, "_body", None), getattr(part, "_sizes", None)
    if body is None or sizes is None:
        return None
    dependencies: Any = import_module("torch._inductor.dependencies")
    virtualized: Any = import_module("torch._inductor.virtualized")
    indices, ranges = dependencies.index_vars_squeeze(*sizes)
    listener = _listener_class()({variable: _hint(graph, size) for variable, size in ranges.items()})
    with virtualized.V.set_ops_handler(listener):
        body(*indices)
    return listener.walk


@cache
def _listener_class() -> Any:
    handlers: Any = import_module("torch._inductor.ops_handler")
    return type("_Listener", (_Listening, handlers.DefaultHandler), {})


_RESULTS = {"welford_reduce": 3, "welford_combine": 3, "online_softmax_reduce": 2}
"""Reductions that give several values."""


class _Listening:
    """Inductor's handler of loop operators, which computes nothing and notes loads and stores."""

    def __init__(self, ranges: dict[Any, int]) -> None:
        self.walk = _Walk()
        self._ranges = ranges
        self._limits: list[Limits] = []
        self._rows: dict[Any, frozenset[Any]] = {}

    def index_expr(self, index: Any, dtype: Any) -> _Value:
        return _Value(self._variables(index), index)

    value_expr = index_expr

    def constant(self, value: Any, dtype: Any) -> _Value:
        return _Value(expression=value)

    def load(self, name: str, index: Any) -> _Value:
        return replace(self._note(self.walk.loads, name, index), is_loaded=True)

    def store(self, name: str, index: Any, value: Any, mode: Any = None) -> None:
        self._note(self.walk.stores, name, index)
        self.walk.only_copies &= mode is None and isinstance(value, _Value) and value.is_loaded
        if mode is not None:  # atomic
            self._note(self.walk.loads, name, index)

    def store_reduction(self, name: str, index: Any, value: Any) -> None:
        self.walk.only_copies = False
        self._note(self.walk.stores, name, index)

    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> Any:
        self._limits.append(mask.limits if isinstance(mask, _Value) else {})
        made = body()
        self._limits.pop()
        return made

    def indirect_indexing(self, index: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> Any:
        sympy: Any = import_module("sympy")
        row = sympy.Symbol(f"row{len(self._rows)}", integer=True, nonnegative=True)
        self._rows[row] = index.variables if isinstance(index, _Value) else frozenset(self._ranges)
        return row

    def reduction(self, dtype: Any, src_dtype: Any, reduction_type: str, value: Any) -> Any:
        made = _depends_on([value])
        return (made,) * _RESULTS[reduction_type] if reduction_type in _RESULTS else made

    def scan(self, dtypes: Any, combine_fn: Any, values: Any) -> Any:
        return tuple(_depends_on([value]) for value in values)

    def sort(self, dtypes: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
        return tuple(_depends_on([value]) for value in values)

    def frexp(self, value: Any) -> Any:
        return (_depends_on([value]),) * 2

    def lt(self, a: Any, b: Any) -> _Value:
        return self._compared(a, b, 0)

    def le(self, a: Any, b: Any) -> _Value:
        return self._compared(a, b, 1)

    def gt(self, a: Any, b: Any) -> _Value:
        return self._compared(b, a, 0)

    def ge(self, a: Any, b: Any) -> _Value:
        return self._compared(b, a, 1)

    def and_(self, a: Any, b: Any) -> _Value:
        return replace(_depends_on([a, b]), limits=_both(a.limits, b.limits))

    logical_and = and_
    bitwise_and = and_

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _depends_on([*args, *kwargs.values()])

    def _variables(self, index: Any) -> frozenset[Any]:
        symbols = getattr(index, "free_symbols", frozenset())
        rows = [self._rows[symbol] for symbol in symbols if symbol in self._rows]
        return frozenset(symbol for symbol in symbols if symbol in self._ranges).union(*rows)

    def _note(self, side: dict[str, list[_Access]], name: str, index: Any) -> _Value:
        variables = self._variables(index)
        limits: Limits = {}
        for each in self._limits:
            limits = _both(limits, each)
        extents = {each: self._extent(each, limits) for each in variables}
        is_chosen = any(symbol in self._rows for symbol in getattr(index, "free_symbols", ()))
        place = _place(index, extents, limits)
        side.setdefault(name, []).append(_Access(prod(extents.values()), place, is_chosen))
        return _Value(variables)

    def _extent(self, variable: Any, limits: Limits) -> int:
        first, end = limits.get(variable, (0, self._ranges[variable]))
        return max(0, min(end, self._ranges[variable]) - max(first, 0))

    def _compared(self, low: Any, high: Any, more: int) -> _Value:
        """`low < high`, or `low <= high` where more is 1, of a variable and a number."""
        found = _depends_on([low, high])
        for value, other, is_low in ((low, high, True), (high, low, False)):
            variable, offset = self._variable_and_offset(value)
            bound = _number(other)
            if variable is not None and bound is not None:
                end = bound - offset + more
                limits = (0, end) if is_low else (bound - offset + 1 - more, self._ranges[variable])
                return replace(found, limits={variable: limits})
        return found

    def _variable_and_offset(self, value: Any) -> tuple[Any, int]:
        """(d, 3) of `d + 3`; (None, 0) of all else."""
        expression = value.expression if isinstance(value, _Value) else None
        for variable in getattr(expression, "free_symbols", ()):
            offset = expression - variable
            if variable in self._ranges and offset.is_Integer:
                return variable, int(offset)
        return None, 0


def _number(value: Any) -> int | None:
    held = value.expression if isinstance(value, _Value) else value
    is_whole = isinstance(held, int) or getattr(held, "is_Integer", False)
    return int(held) if is_whole else None


def _depends_on(values: Iterable[Any]) -> _Value:
    return _Value(frozenset[Any]().union(*(value.variables for value in values if isinstance(value, _Value))))


def _both(a: Limits, b: Limits) -> Limits:
    ends = {
        variable: (max(a[variable][0], b[variable][0]), min(a[variable][1], b[variable][1])) for variable in {*a} & {*b}
    }
    return {**a, **b, **ends}


def _place(index: Any, extents: Mapping[Any, int], limits: Limits) -> object:
    """Equal for accesses of the same elements, whatever their loop variables are called."""
    free = getattr(index, "free_symbols", frozenset())
    if not free <= set(extents):
        return str(index)
    steps = {variable: index.coeff(variable) for variable in free}
    rest = index - sum(step * variable for variable, step in steps.items())
    if not all(step.is_Integer for step in steps.values()) or (free and rest.free_symbols):
        return str(index)
    starts = {variable: max(limits[variable][0], 0) for variable in free if variable in limits}
    first = rest + sum(steps[variable] * start for variable, start in starts.items())
    return int(first), tuple(sorted((int(step), extents[variable]) for variable, step in steps.items()))
