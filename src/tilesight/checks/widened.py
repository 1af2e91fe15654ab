"""A module that computes offsets twice: as they are, and in 64 bits, side by side.

Integers that an operation which wraps leads to get a twin of 64 bits, through casts, loops, conditions
and calls; before each sink that a twin reaches stand markers, which show both to a listener. What
the module does to memory is what the original does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from tilesight.checks.address_slice import AddressSlice, Sink, address_slice
from tilesight.checks.building import build, with_operands
from tilesight.checks.slices import Flow, flow_of
from tilesight.ir.module import Block, DenseElements, Function, Module, Operation, Region, SymbolRef, Value
from tilesight.ir.types import IntegerType, TensorType, Type, element_type

I1, I64 = IntegerType(1), IntegerType(64)
CASTS = frozenset({"arith.extsi", "arith.index_cast", "arith.trunci"})
WIDENED = frozenset(
    {
        *(f"arith.{name}" for name in ("addi", "subi", "muli", "shli", "shrsi", "divsi", "remsi", "ceildivsi")),
        *(f"arith.{name}" for name in ("floordivsi", "maxsi", "minsi", "andi", "ori", "cmpi", "select")),
        *(f"tt.{name}" for name in ("splat", "unsplat", "broadcast", "expand_dims", "reshape", "trans", "cat")),
        *(f"tt.{name}" for name in ("join", "split", "addptr", "ptr_to_int", "int_to_ptr")),
    }
)
"""Exact on 64 bits whatever 32 bits hold, as long as nothing has wrapped; others read 32 bits as they are."""


@dataclass(frozen=True, eq=False)
class Widened:
    """The module with twins.

    Args:
        module: takes the same launches
        markers: the operations that show a sink's values, each twin behind its original, with the
            sink and the place in that row
    """

    module: Module
    markers: dict[Operation, tuple[Sink, int]]


def widen(module: Module, wrapping: Collection[Operation]) -> Widened:
    """The module with twins of what the wrapping operations lead to."""
    part = address_slice(module)
    rewriter = _Rewriter(module, part, _reached(module, part, wrapping))
    functions = tuple(rewriter.function(function) for function in module.functions)
    return Widened(replace(module, functions=functions), rewriter.markers)


def is_narrow(type_: Type) -> bool:
    """Whether a value is of integers of 8 to 32 bits."""
    element = element_type(type_)
    return isinstance(element, IntegerType) and 1 < element.bits < 64


def _widened(type_: Type) -> Type:
    if not is_narrow(type_):
        return type_
    return replace(type_, element=I64) if isinstance(type_, TensorType) else I64


def _reached(module: Module, part: AddressSlice, wrapping: Collection[Operation]) -> frozenset[Value]:
    """The values of the slice that need a twin; a loop's counter follows its bounds, which are compared."""
    flow = flow_of(module)
    loops = [operation for operation in module.walk() if operation.name == "scf.for"]
    open_values = part.values - {loop.regions[0].entry.arguments[0] for loop in loops}
    found = {value for operation in wrapping for value in operation.results}
    is_settled = False
    while not is_settled:
        new = {value for value in open_values - found if not found.isdisjoint(_carried_into(flow, value))}
        found |= new
        is_settled = not new
    return frozenset(found)


def _carried_into(flow: Flow, value: Value) -> Sequence[Value]:
    operation = flow.definitions.get(value)
    sources = flow.sources.get(value, ())
    return (*sources, *operation.operands) if operation is not None and _is_widened(operation) else sources


def _is_widened(operation: Operation) -> bool:
    """Whether an operation keeps its meaning on 64 bits; bit tricks and unsigned arithmetic do not."""
    if operation.name in CASTS or operation.name == "arith.extui":
        return operation.name != "arith.trunci" or element_type(operation.results[0].type) != I1
    if operation.name == "arith.cmpi":
        return not str(operation.attributes["predicate"]).startswith("u")
    is_condition = bool(operation.results) and element_type(operation.results[0].type) == I1
    return operation.name in WIDENED or (operation.name == "arith.xori" and is_condition)


@dataclass(eq=False)
class _Rewriter:
    """Copies what has to change and shares the rest.

    `twins` grows as operations are passed; `regions` keeps a region that two loops share one.
    """

    module: Module
    part: AddressSlice
    reached: frozenset[Value]
    twins: dict[Value, Value] = field(default_factory=dict[Value, Value])
    markers: dict[Operation, tuple[Sink, int]] = field(default_factory=dict[Operation, "tuple[Sink, int]"])
    blocks: dict[Block, Block] = field(default_factory=dict[Block, Block])
    regions: dict[Region, Region] = field(default_factory=dict[Region, Region])

    def function(self, function: Function) -> Function:
        positions = self._returned_positions(function)
        body = self._region(function.body, {"tt.return": positions})
        twins = tuple(_widened(function.result_types[place]) for place in positions)
        entry = body.blocks[0].arguments if body.blocks else function.arguments
        return replace(function, arguments=entry, result_types=function.result_types + twins, body=body)

    def _returned_positions(self, function: Function) -> list[int]:
        returns = [op for block in function.body.blocks for op in block.operations if op.name == "tt.return"]
        return [
            place
            for place in range(len(function.result_types))
            if any(each.operands[place] in self.reached for each in returns)
        ]

    def _region(self, region: Region, extended: dict[str, list[int]]) -> Region:
        """A region whose terminators hand on twins as well.

        Args:
            extended: terminator → places of the operands whose twins it appends
        """
        if region not in self.regions:
            for block in region.blocks:
                arguments = (*block.arguments, *self._new_twins(block.arguments))
                self.blocks[block] = Block(arguments, [], block.label)
            for block in region.blocks:
                for operation in block.operations:
                    self._operation(operation, self.blocks[block].operations, extended)
            self.regions[region] = Region([self.blocks[block] for block in region.blocks])
        return self.regions[region]

    def _new_twins(self, values: Sequence[Value]) -> list[Value]:
        made = {value: _twin_of(value) for value in values if value in self.reached}
        self.twins.update(made)
        return list(made.values())

    def _operation(self, operation: Operation, out: list[Operation], extended: dict[str, list[int]]) -> None:
        for sink in self.part.sinks.get(operation, ()):
            if not self.reached.isdisjoint(sink.values):
                self._mark(sink, out)
        structure = _STRUCTURES.get(operation.name)
        if structure is not None:
            out.append(structure(self, operation, out))
            return
        if operation.name in extended:
            out.append(self._with_twins(operation, extended[operation.name], out))
            return
        out.append(operation)
        if not self.reached.isdisjoint(operation.results):
            self._add_twin(operation, out)

    def _mark(self, sink: Sink, out: list[Operation]) -> None:
        row = [shown for value in sink.values for shown in (value, self.wide(value, out))]
        for place, value in enumerate(row):
            marker = build("tt.bitcast", (value,), Value("", value.type), location=sink.operation.location)
            self.markers[marker] = sink, place
            out.append(marker)

    def wide(self, value: Value, out: list[Operation]) -> Value:
        """A value's twin, or the value itself in 64 bits."""
        if value in self.twins:
            return self.twins[value]
        return self._emit("arith.extsi", (value,), _twin_of(value), out) if is_narrow(value.type) else value

    def _emit(self, name: str, operands: Sequence[Value], result: Value, out: list[Operation]) -> Value:
        out.append(build(name, operands, result, location=result.location))
        return result

    def _add_twin(self, operation: Operation, out: list[Operation]) -> None:
        source = operation.operands[0] if operation.operands else None
        is_cast = source is not None and element_type(source.type) != I1
        if is_cast and source is not None and operation.name in CASTS:
            self.twins[operation.results[0]] = self.wide(source, out)
        elif is_cast and source is not None and operation.name == "arith.extui":
            self.twins[operation.results[0]] = self._read_as_unsigned(source, out)
        else:
            operands = tuple(self.wide(value, out) for value in operation.operands)
            results = tuple(_twin_of(value) for value in operation.results)
            out.append(with_operands(operation, operands, results))
            self.twins.update(zip(operation.results, results, strict=True))

    def _read_as_unsigned(self, source: Value, out: list[Operation]) -> Value:
        """The twin of a value that is widened with zeros: one below 0 stands for its bits."""
        wide = self.wide(source, out)
        element = element_type(source.type)
        assert isinstance(element, IntegerType)
        zero, bits = (self._constant(number, wide.type, out) for number in (0, (1 << min(element.bits, 63)) - 1))
        condition = replace(wide.type, element=I1) if isinstance(wide.type, TensorType) else I1
        out.append(build("arith.cmpi", (wide, zero), below := Value("", condition), {"predicate": "slt"}))
        low = self._emit("arith.andi", (wide, bits), Value("", wide.type), out)
        return self._emit("arith.select", (below, low, wide), Value("", wide.type), out)

    def _constant(self, number: int, type_: Type, out: list[Operation]) -> Value:
        held = DenseElements(type_, (number,)) if isinstance(type_, TensorType) else number
        out.append(build("arith.constant", (), made := Value("", type_), {"value": held}))
        return made

    def _with_twins(self, operation: Operation, places: Sequence[int], out: list[Operation]) -> Operation:
        """An operation that hands on twins of some operands behind the others."""
        more = tuple(self.wide(operation.operands[place], out) for place in places)
        segments = dict(operation.operand_segments)
        if segments and more:
            last = next(reversed(segments))
            segments[last] += more
        return replace(operation, operands=operation.operands + more, operand_segments=segments)

    def places(self, values: Sequence[Value], first: int = 0) -> list[int]:
        """Where values that have twins stand, counted from `first`."""
        return [place for place, value in enumerate(values, first) if value in self.reached]

    def loop(self, operation: Operation, out: list[Operation]) -> Operation:
        places = self.places(operation.regions[0].entry.arguments[1:])
        changed = self._with_twins(operation, [place + 3 for place in places], out)
        body = self._region(operation.regions[0], {"scf.yield": places})
        return self._with_results(changed, places, (body,))

    def condition(self, operation: Operation, out: list[Operation]) -> Operation:
        places = self.places(operation.results)
        regions = tuple(self._region(region, {"scf.yield": places}) for region in operation.regions)
        return self._with_results(operation, places, regions)

    def while_loop(self, operation: Operation, out: list[Operation]) -> Operation:
        before, after = operation.regions
        carried, passed = self.places(before.entry.arguments), self.places(after.entry.arguments)
        changed = self._with_twins(operation, carried, out)
        first = self._region(before, {"scf.condition": [place + 1 for place in passed]})
        second = self._region(after, {"scf.yield": carried})
        return self._with_results(changed, passed, (first, second))

    def call(self, operation: Operation, out: list[Operation]) -> Operation:
        callee = operation.attributes["callee"]
        assert isinstance(callee, SymbolRef)
        function = self.module.function(callee.name)
        changed = self._with_twins(operation, self.places(function.arguments), out)
        return self._with_results(changed, self._returned_positions(function), ())

    def branch(self, operation: Operation, out: list[Operation]) -> Operation:
        successors = tuple(
            (self.blocks[block], (*passed, *(self.wide(passed[place], out) for place in self.places(block.arguments))))
            for block, passed in operation.successors
        )
        return replace(operation, successors=successors)

    def _with_results(self, operation: Operation, places: Sequence[int], regions: tuple[Region, ...]) -> Operation:
        twins = {operation.results[place]: _twin_of(operation.results[place]) for place in places}
        self.twins.update(twins)
        return replace(operation, results=(*operation.results, *twins.values()), regions=regions)


Structure = Callable[[_Rewriter, Operation, "list[Operation]"], Operation]
_STRUCTURES: dict[str, Structure] = {
    "scf.for": _Rewriter.loop,
    "scf.if": _Rewriter.condition,
    "scf.while": _Rewriter.while_loop,
    "cf.br": _Rewriter.branch,
    "cf.cond_br": _Rewriter.branch,
    "tt.call": _Rewriter.call,
}


def _twin_of(value: Value) -> Value:
    return Value(f"{value.name}_wide", _widened(value.type), value.location)
