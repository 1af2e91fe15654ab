"""A module whose loops run their first and last rounds only, for sizes at which nobody can wait for all.

What a loop carries into addresses is moved on by as many steps as were left out, where each round
adds the same; sums and other data are not what they would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilesight.checks.address_slice import address_slice
from tilesight.checks.building import build, with_operands
from tilesight.checks.expression import SHOWN, describe
from tilesight.checks.slices import flow_of
from tilesight.ir.module import Attribute, Block, DenseElements, Function, Module, Operation, Region, Value
from tilesight.ir.types import IntegerType, TensorType, Type, element_type, item_bits

ROUNDS = 2
"""Rounds kept at either end: an affine offset leaves int32 at one of its ends first."""

STEPS = {"arith.addi": (0, 1), "arith.subi": (0,), "tt.addptr": (0,)}
"""What moves a carried value on, and which operand it may be."""

I64 = IntegerType(64)
HOISTED = frozenset(
    {"arith.constant", "arith.extsi", "tt.splat", "tt.broadcast", "tt.expand_dims"}
    | {f"arith.{name}" for name in ("addi", "subi", "muli", "divsi", "remsi", "maxsi", "minsi")}
)


@dataclass(frozen=True, eq=False)
class Shortened:
    """The module with short loops.

    Args:
        module: takes the same launches
        cut: loops of which only the first rounds run, as what they carry into addresses has no fixed step
        whole: while loops, which run until they end
    """

    module: Module
    cut: tuple[Operation, ...]
    whole: tuple[Operation, ...]


def shorten(module: Module) -> Shortened:
    """The module with each `for` loop split into its first and its last rounds."""
    shortener = _Shortener(module)
    functions = tuple(shortener.function(function) for function in module.functions)
    return Shortened(replace(module, functions=functions), tuple(shortener.cut), tuple(shortener.whole))


@dataclass(eq=False)
class _Emitter:
    """Appends integer operations of one location."""

    out: list[Operation]
    like: Operation

    def __call__(self, name: str, *operands: Value, type_: Type | None = None, shown: str = "") -> Value:
        result = Value("", operands[0].type if type_ is None else type_, self.like.location)
        attributes: dict[str, Attribute] = {SHOWN: shown} if shown else {}
        self.out.append(build(name, operands, result, attributes, self.like.location))
        return result

    def constant(self, number: int, type_: Type) -> Value:
        held = DenseElements(type_, (number,)) if isinstance(type_, TensorType) else number
        result = Value("", type_)
        self.out.append(build("arith.constant", (), result, {"value": held}, self.like.location))
        return result

    def cast(self, value: Value, element: Type) -> Value:
        """A scalar or block of integers as those of another width."""
        if element_type(value.type) == element:
            return value
        type_ = replace(value.type, element=element) if isinstance(value.type, TensorType) else element
        wider = item_bits(element) > item_bits(value.type)
        return self("arith.extsi" if wider else "arith.trunci", value, type_=type_)

    def spread(self, scalar: Value, like: Type) -> Value:
        """A scalar as a block of the shape of `like`."""
        if not isinstance(like, TensorType):
            return scalar
        return self("tt.splat", scalar, type_=replace(like, element=scalar.type))


@dataclass(frozen=True, eq=False)
class _Step:
    """What a round adds to a carried value: the operation and the amount, which no round changes."""

    operation: Operation
    amount: Value


@dataclass(eq=False)
class _Shortener:
    module: Module
    cut: list[Operation] = field(default_factory=list[Operation])
    whole: list[Operation] = field(default_factory=list[Operation])

    def function(self, function: Function) -> Function:
        return replace(function, body=self._region(function.body, rename=True))

    def _region(self, region: Region, rename: bool = False) -> Region:
        """A region with short loops; branches of a region of several blocks lead to the new ones."""
        blocks = {block: Block(block.arguments, [], block.label) for block in region.blocks}
        for block, new in blocks.items():
            for operation in block.operations:
                self._operation(operation, new.operations)
            if rename and new.operations and new.operations[-1].successors:
                last = new.operations[-1]
                successors = tuple((blocks[target], passed) for target, passed in last.successors)
                new.operations[-1] = replace(last, successors=successors)
        return Region(list(blocks.values()))

    def _operation(self, operation: Operation, out: list[Operation]) -> None:
        if operation.dialect != "scf" or not operation.regions:
            out.append(operation)
            return
        if operation.name == "scf.while":
            self.whole.append(operation)
        regions = tuple(self._region(region) for region in operation.regions)
        if operation.name == "scf.for":
            self._split(operation, regions[0], out)
        else:
            out.append(replace(operation, regions=regions))

    def _split(self, loop: Operation, body: Region, out: list[Operation]) -> None:
        steps = self._steps(loop)
        emit = _Emitter(out, loop)
        lower, upper, step = loop.operands[:3]
        zero, kept = emit.constant(0, lower.type), emit.constant(ROUNDS, lower.type)
        rounds = emit("arith.maxsi", emit("arith.ceildivsi", emit("arith.subi", upper, lower), step), zero)
        first = emit("arith.minsi", rounds, kept)
        stop = emit("arith.addi", lower, emit("arith.muli", first, step))
        if steps is None or loop.attributes.get("unsignedCmp"):
            self.cut.append(loop)
            out.append(self._loop(loop, (lower, stop, step), loop.operands[3:], loop.results, body))
            return
        carried = tuple(Value(result.name, result.type, result.location) for result in loop.results)
        out.append(self._loop(loop, (lower, stop, step), loop.operands[3:], carried, body))
        last = emit("arith.maxsi", emit("arith.subi", rounds, kept), first)
        start = emit("arith.addi", lower, emit("arith.muli", last, step))
        skipped = emit("arith.subi", last, first)
        advanced = [
            self._advance(value, chain, skipped, loop, out) for value, chain in zip(carried, steps, strict=True)
        ]
        out.append(self._loop(loop, (start, upper, step), advanced, loop.results, body))

    def _loop(
        self,
        loop: Operation,
        bounds: tuple[Value, Value, Value],
        initial: Sequence[Value],
        results: tuple[Value, ...],
        body: Region,
    ) -> Operation:
        lower, upper, step = bounds
        segments = {"lower": (lower,), "upper": (upper,), "step": (step,), "init": tuple(initial)}
        return replace(loop, operands=(*bounds, *initial), results=results, regions=(body,), operand_segments=segments)

    def _steps(self, loop: Operation) -> list[list[_Step]] | None:
        """For each carried value what a round adds to it; None where one that addresses need adds no fixed amount."""
        body = loop.regions[0]
        values = address_slice(self.module).values
        found: list[list[_Step]] = []
        for argument, yielded in zip(body.entry.arguments[1:], body.entry.operations[-1].operands, strict=True):
            chain = self._chain(yielded, argument, loop) if argument in values else []
            if chain is None:
                return None
            found.append(chain)
        return found

    def _chain(self, value: Value, argument: Value, loop: Operation) -> list[_Step] | None:
        """The additions that lead from a carried value to what is handed on, outermost last."""
        chain: list[_Step] = []
        definitions = flow_of(self.module).definitions
        while value is not argument:
            operation = definitions.get(value)
            if operation is None or operation.name not in STEPS:
                return None
            places = [place for place in STEPS[operation.name] if self._is_fixed(operation.operands[1 - place], loop)]
            if not places:
                return None
            chain.insert(0, _Step(operation, operation.operands[1 - places[0]]))
            value = operation.operands[places[0]]
        return chain

    def _is_fixed(self, value: Value, loop: Operation) -> bool:
        """Whether a value is the same in every round and can be computed before the loop."""
        flow = flow_of(self.module)
        if any(
            value in block.arguments for inner in loop.walk() for region in inner.regions for block in region.blocks
        ):
            return False
        operation = flow.definitions.get(value)
        if operation is None or loop not in flow.enclosing(operation):
            return True
        return operation.name in HOISTED and all(self._is_fixed(operand, loop) for operand in operation.operands)

    def _hoist(self, value: Value, loop: Operation, out: list[Operation]) -> Value:
        """A fixed value as one that is known before the loop."""
        flow = flow_of(self.module)
        operation = flow.definitions.get(value)
        if operation is None or loop not in flow.enclosing(operation):
            return value
        operands = tuple(self._hoist(operand, loop, out) for operand in operation.operands)
        result = Value("", value.type, value.location)
        out.append(with_operands(operation, operands, (result,)))
        return result

    def _advance(
        self, value: Value, chain: Sequence[_Step], skipped: Value, loop: Operation, out: list[Operation]
    ) -> Value:
        """A carried value after the rounds that are left out."""
        for step in chain:
            emit = _Emitter(out, step.operation)
            amount = self._hoist(step.amount, loop, out)
            is_pointer = step.operation.name == "tt.addptr"
            element = I64 if is_pointer else element_type(amount.type)
            count = emit.spread(emit.cast(skipped, element), amount.type)
            shown = "" if is_pointer else describe(step.operation, self.module)
            moved = emit("arith.muli", emit.cast(amount, element), count, shown=shown)
            value = emit(step.operation.name, value, moved, shown=shown)
        return value
