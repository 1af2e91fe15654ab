"""A module rewritten to compute with wider floats, each stored value shown before it is rounded to memory's type.

Tensors keep their types, unless their pointers are named too: what is loaded is widened, what is stored is
rounded. Casts between floats whose two sides became one type go away. What reinterprets bits, or has no rule for
a wider type, keeps its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilesight.checks.building import segments_of
from tilesight.checks.slices import flow_of
from tilesight.ir.module import Block, Function, Module, Operation, Region, Value
from tilesight.ir.types import DescriptorType, FloatType, PointerType, TensorType, Type, element_type

F64, F32 = FloatType("f64"), FloatType("f32")
CASTS = frozenset({"arith.extf", "arith.truncf", "tt.fp_to_fp"})
COMBINING = frozenset({"tt.reduce", "tt.scan"})
FUNCTION_CONTROL = frozenset({"tt.call", "tt.return", "tt.reduce.return", "tt.scan.return"})
TO_OTHERS = frozenset({"arith.cmpf", "arith.fptosi", "arith.fptoui"})
"""Floats go in, something else comes out."""

MOVES = ("broadcast", "cat", "expand_dims", "gather", "join", "reshape", "splat", "split", "trans", "unsplat")
ARITHMETIC = frozenset(
    {
        *(f"arith.{name}" for name in ("addf", "subf", "mulf", "divf", "remf", "negf", "select")),
        *(f"arith.{name}" for name in ("maximumf", "minimumf", "maxnumf", "minnumf")),
        *(f"tt.{name}" for name in (*MOVES, "clampf", "precise_divf", "precise_sqrt")),
    }
)
"""Operations that compute in the type of their float operands."""

FROM_INTEGERS = frozenset({"arith.sitofp", "arith.uitofp"})
LOADING = frozenset({"tt.descriptor_gather", "tt.descriptor_load", "tt.load"})
STORING = frozenset({"tt.atomic_rmw", "tt.descriptor_store", "tt.store"})
STORING_TILES = STORING | {"tt.descriptor_reduce", "tt.descriptor_scatter"}
JUMPS = frozenset({"cf.br", "cf.cond_br"})
BITCASTS = frozenset({"arith.bitcast", "tt.bitcast"})
UNMEASURABLE = frozenset({"tt.elementwise_inline_asm", "tt.map_elementwise"})

Wider = Mapping[Value, FloatType]


@dataclass(frozen=True, eq=False)
class Widened:
    """A rewritten module.

    Args:
        module: of the same parameters
        stores: for each of its operations that store floats the original and the operation before it, whose
            operand is what is stored in f64 and whose result is that value rounded
        unrounded: for each of its operations that store to a tensor which is wider now the original
    """

    module: Module
    stores: dict[Operation, tuple[Operation, Operation]]
    unrounded: dict[Operation, Operation]


def can_widen(module: Module) -> bool:
    """Whether a wider module says something: no float is taken for bits, and nothing computes in assembly.

    An atomic minimum or maximum of floats is one of their bits, and says as much as a store.
    """
    operations = list(module.walk())
    given = {inner.operand_segments["value"][0] for inner in operations if inner.name == "tt.atomic_rmw"}
    bits = {inner.results[0] for inner in operations if _takes_bits(inner)}
    return bits <= given and not any(inner.name in UNMEASURABLE for inner in operations)


def _takes_bits(operation: Operation) -> bool:
    return operation.name in BITCASTS and is_float(operation.operands[0]) and not is_float(operation.results[0])


def is_float(value: Value) -> bool:
    return isinstance(element_type(value.type), FloatType)


def every_float(module: Module, type_: FloatType = F64) -> dict[Value, FloatType]:
    """Each float value of a module with one wider type."""
    found: dict[Value, FloatType] = {}
    for function in module.functions:
        values = [*function.arguments]
        for region in [function.body, *(region for inner in function.walk() for region in inner.regions)]:
            values += [value for block in region.blocks for value in block.arguments]
        values += [value for inner in function.walk() for value in inner.results]
        found.update({value: type_ for value in values if is_float(value)})
    return found


def widen(module: Module, wider: Wider, ieee: Collection[Operation] = ()) -> Widened:
    """The module with some values in wider types.

    Args:
        wider: value → its new type; what is carried, yielded or combined together must be named together.
            Of a pointer or a descriptor it is the type of the tensor's elements: the launch must bring such a tensor
        ieee: products of f32 to be made in f32
    """
    writer = _Writer(module, wider, frozenset(ieee))
    functions = tuple(writer.function(function) for function in module.functions)
    return Widened(Module(functions, module.location, ""), writer.stores, writer.unrounded)


def _with_element(type_: Type, element: Type) -> Type:
    return replace(type_, element=element) if isinstance(type_, TensorType) else element


def _with_float(type_: Type, float_: FloatType) -> Type:
    """A type with another float: as its element, or as what its pointers or its descriptor point to."""
    if isinstance(type_, DescriptorType):
        return replace(type_, block=replace(type_.block, element=float_))
    element = element_type(type_)
    pointer = replace(element, pointee=float_) if isinstance(element, PointerType) else float_
    return _with_element(type_, pointer)


@dataclass(eq=False)
class _Writer:
    """Copies operations, one after another, into the block that is being written."""

    module: Module
    wider: Wider
    ieee: frozenset[Operation]
    stores: dict[Operation, tuple[Operation, Operation]] = field(
        default_factory=dict[Operation, tuple[Operation, Operation]]
    )
    unrounded: dict[Operation, Operation] = field(default_factory=dict[Operation, Operation])
    _new: dict[Value, Value] = field(default_factory=dict[Value, Value])
    _blocks: dict[Block, Block] = field(default_factory=dict[Block, Block])
    _written: list[Operation] = field(default_factory=list[Operation])

    def function(self, function: Function) -> Function:
        """A kernel keeps its parameters' types, for the launch's arguments; other functions' change."""
        is_kernel = function is self.module.kernel
        body = self._region(function.body, keeps_entry=is_kernel)
        results = function.result_types if is_kernel else tuple(map(self._widest_result, function.result_types))
        return replace(function, arguments=body.entry.arguments, result_types=results, body=body)

    def _widest_result(self, type_: Type) -> Type:
        return _with_element(type_, F64) if isinstance(element_type(type_), FloatType) and self._is_total else type_

    @property
    def _is_total(self) -> bool:
        """Whether all floats are f64, those that functions return included."""
        return F64 in self.wider.values()

    def _target(self, value: Value) -> Type:
        chosen = self.wider.get(value)
        return value.type if chosen is None else _with_float(value.type, chosen)

    def _memory_type(self, operation: Operation) -> FloatType | None:
        """The wider type of the elements that an operation loads or stores; None where they keep theirs."""
        touches = operation.name in LOADING | STORING_TILES
        return self.wider.get(operation.operands[0]) if touches else None

    def _region(self, region: Region, *, keeps_entry: bool = False) -> Region:
        for index, block in enumerate(region.blocks):
            keeps = keeps_entry and index == 0
            types = [each.type if keeps and is_float(each) else self._target(each) for each in block.arguments]
            arguments = tuple(map(self._fresh, block.arguments, types))
            self._blocks[block] = Block(arguments, [], block.label)
        for block in region.blocks:
            self._fill(block, self._blocks[block])
        return Region([self._blocks[block] for block in region.blocks])

    def _fill(self, block: Block, copy: Block) -> None:
        outer, self._written = self._written, copy.operations
        for value in block.arguments:
            self._new[value] = self._converted(self._new[value], element_type(self._target(value)))
        for operation in block.operations:
            self._copy(operation)
        self._written = outer

    def _fresh(self, value: Value, type_: Type) -> Value:
        self._new[value] = Value(value.name, type_, value.location)
        return self._new[value]

    def _converted(self, value: Value, element: Type, location: Operation | None = None) -> Value:
        """A value with another float element, by a cast where it has not got it."""
        have = element_type(value.type)
        if not isinstance(have, FloatType) or not isinstance(element, FloatType) or have == element:
            return value
        result = Value(value.name, _with_element(value.type, element), value.location)
        name = "arith.extf" if element.bits > have.bits else "arith.truncf"
        name = "tt.fp_to_fp" if element.bits == have.bits else name
        self._written.append(Operation(name, (value,), (result,), location=(location or value).location))
        return result

    def _copy(self, operation: Operation) -> None:
        name = operation.name
        if name in CASTS and self._is_changed(operation):
            (source,), (result,) = operation.operands, operation.results
            self._new[result] = self._converted(self._new[source], element_type(self._target(result)), operation)
        elif name in STORING_TILES and self._memory_type(operation) is not None:
            self._copy_wide_store(operation)
        elif name in STORING and is_float(self._stored(operation)):
            self._copy_store(operation)
        elif name in COMBINING | FUNCTION_CONTROL or operation.dialect in ("scf", "cf"):
            self._copy_control(operation)
        else:
            self._emit(operation, self._elements(operation), self._result_types(operation))

    def _is_changed(self, cast: Operation) -> bool:
        (source,), (result,) = cast.operands, cast.results
        return self._new[source].type != source.type or self._target(result) != result.type

    def _elements(self, operation: Operation) -> list[Type]:
        """The element type that each operand is to have."""
        operands = operation.operands
        kept = [element_type(value.type) for value in operands]
        memory = self._memory_type(operation)
        if memory is not None:
            return [memory if is_float(value) else have for value, have in zip(operands, kept, strict=True)]
        if operation.name in TO_OTHERS:
            have = [element_type(self._new[value].type) for value in operands]
            floats = [each for each in have if isinstance(each, FloatType)]
            return [max(floats, key=lambda each: each.bits)] * len(operands)
        if not operation.results or not self._computes_wide(operation):
            return kept
        result = element_type(self._target(operation.results[0]))
        if operation.name == "tt.dot":
            return [*([result] * 2 if result == F64 else kept[:2]), result]
        return [result if is_float(value) else have for value, have in zip(operands, kept, strict=True)]

    def _computes_wide(self, operation: Operation) -> bool:
        """Whether an operation takes a wider type as it is, rather than its result being widened."""
        is_arithmetic = operation.name in ARITHMETIC or operation.dialect == "math" or operation.name == "tt.dot"
        return any(map(is_float, operation.results)) and (is_arithmetic or operation.name in FROM_INTEGERS)

    def _result_types(self, operation: Operation) -> list[Type]:
        wide, memory = self._computes_wide(operation), self._memory_type(operation)
        if memory is not None:
            return [_with_float(value.type, memory) for value in operation.results]
        return [self._target(value) if wide or not is_float(value) else value.type for value in operation.results]

    def _emit(self, operation: Operation, elements: Sequence[Type], results: Sequence[Type]) -> Operation:
        """Copy an operation with its operands converted; results of the old types are widened after it."""
        pairs = zip(operation.operands, elements, strict=True)
        operands = tuple(self._converted(self._new[value], element) for value, element in pairs)
        copy = self._again(operation, operands, results, ())
        for value in operation.results:
            self._new[value] = self._converted(self._new[value], element_type(self._target(value)))
        return copy

    def _again(
        self, operation: Operation, operands: tuple[Value, ...], results: Sequence[Type], regions: tuple[Region, ...]
    ) -> Operation:
        attributes = {**operation.attributes, "inputPrecision": "ieee"} if operation in self.ieee else None
        copy = replace(
            operation,
            operands=operands,
            results=tuple(self._fresh(value, type_) for value, type_ in zip(operation.results, results, strict=True)),
            attributes=attributes or operation.attributes,
            regions=regions,
            operand_segments=segments_of(operation, operands),
            successors=(),
        )
        self._written.append(copy)
        return copy

    def _stored(self, operation: Operation) -> Value:
        """The float that is stored, or whose bits are."""
        value = operation.operand_segments["value"][0]
        origin = flow_of(self.module).definitions.get(value)
        return origin.operands[0] if origin is not None and _takes_bits(origin) else value

    def _copy_store(self, operation: Operation) -> None:
        """Store what the value is before its rounding to memory's type, by way of f64, rounded as it was."""
        stored, given = self._stored(operation), operation.operand_segments["value"][0]
        wide = self._converted(self._new[self._before_rounding(stored)], F64)
        narrow = Value(stored.name, stored.type, stored.location)
        shown = Operation("arith.truncf", (wide,), (narrow,), location=operation.location)
        self._written.append(shown)
        value = narrow if stored is given else self._bits(narrow, given)
        kept = [self._converted(self._new[each], element_type(each.type)) for each in operation.operands]
        kept[operation.operands.index(given)] = value
        copy = self._again(operation, tuple(kept), [each.type for each in operation.results], ())
        self.stores[copy] = operation, shown
        for each in operation.results:
            self._new[each] = self._converted(self._new[each], element_type(self._target(each)))

    def _before_rounding(self, stored: Value) -> Value:
        origin = flow_of(self.module).definitions.get(stored)
        rounds = origin is not None and origin.name in CASTS and not _rounds_otherwise(origin)
        return origin.operands[0] if rounds and origin is not None else stored

    def _copy_wide_store(self, operation: Operation) -> None:
        """Store what the value is before its rounding to memory's type, to memory of a wider one."""
        given, memory = operation.operand_segments["value"][0], self._memory_type(operation)
        assert memory is not None
        kept = [self._new[each] for each in operation.operands]
        kept[operation.operands.index(given)] = self._converted(self._new[self._before_rounding(given)], memory)
        copy = self._again(operation, tuple(kept), self._result_types(operation), ())
        self.unrounded[copy] = operation
        for each in operation.results:
            self._new[each] = self._converted(self._new[each], element_type(self._target(each)))

    def _bits(self, value: Value, like: Value) -> Value:
        result = Value(like.name, like.type, like.location)
        self._written.append(Operation("tt.bitcast", (value,), (result,), location=like.location))
        return result

    def _copy_control(self, operation: Operation) -> None:
        """Operations whose operands become arguments or results elsewhere: each takes the type it has there."""
        results = [self._target(value) for value in operation.results]
        if operation.name in COMBINING:
            elements = [element_type(each) for each in results]
        elif operation.name in ("scf.for", "scf.while"):
            entry = operation.regions[0].entry.arguments
            carried = entry[1:] if operation.name == "scf.for" else entry
            bounds = operation.operands[: len(operation.operands) - len(carried)]
            elements = [element_type(value.type) for value in bounds] + self._elements_of(carried)
        elif operation.name == "tt.call":
            callee = self.module.function(getattr(operation.attributes["callee"], "name", ""))
            elements = self._elements_of(callee.arguments)
        else:
            elements = self._elements_at_end(operation)
        pairs = zip(operation.operands, elements, strict=True)
        operands = tuple(self._converted(self._new[value], element) for value, element in pairs)
        copy = self._again(operation, operands, results, ())
        copy.regions = tuple(self._region(region) if region.blocks else Region() for region in operation.regions)
        if operation.regions:
            self._convert_ends(operation, copy)
        if operation.name in JUMPS:
            copy.successors = tuple(self._jump(block, values) for block, values in operation.successors)

    def _elements_of(self, values: Sequence[Value]) -> list[Type]:
        return [element_type(self._target(value)) for value in values]

    def _elements_at_end(self, operation: Operation) -> list[Type]:
        """A function's results are all widened or none; a region's are converted by the operation around it."""
        if operation.name == "tt.return":
            return [element_type(self._widest_result(value.type)) for value in operation.operands]
        return [element_type(self._new[value].type) for value in operation.operands]

    def _jump(self, block: Block, values: tuple[Value, ...]) -> tuple[Block, tuple[Value, ...]]:
        """The casts stand before the jump, which is the last operation written."""
        jump = self._written.pop()
        elements = self._elements_of(block.arguments)
        pairs = zip(values, elements, strict=True)
        passed = tuple(self._converted(self._new[value], element) for value, element in pairs)
        self._written.append(jump)
        return self._blocks[block], passed

    def _convert_ends(self, operation: Operation, copy: Operation) -> None:
        """What each region yields gets the type of where it goes."""
        for index, (region, new) in enumerate(zip(operation.regions, copy.regions, strict=True)):
            if not region.blocks:
                continue
            targets: Sequence[Value] = operation.results
            if operation.name == "scf.while" and index == 1:
                targets = operation.regions[0].entry.arguments
            end = new.entry.operations.pop()
            first = len(end.operands) - len(targets)
            outer, self._written = self._written, new.entry.operations
            pairs = zip(end.operands[first:], self._elements_of(targets), strict=True)
            operands = (*end.operands[:first], *(self._converted(value, element) for value, element in pairs))
            self._written = outer
            ended = replace(end, operands=operands, operand_segments=segments_of(end, operands))
            new.entry.operations.append(ended)


def _rounds_otherwise(cast: Operation) -> bool:
    """Whether a cast rounds in another way than to nearest even."""
    mode = str(cast.attributes.get("rounding", cast.attributes.get("roundingmode", "")))
    return mode not in ("", "rtne", "to_nearest_even")
