"""What the types of each operation's operands and results must be to one another.

A rule takes an operation and returns the Problem it finds, or None. The structure (operands in
scope, terminators, yields) is `verifier`'s business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilesight.ir.assembly_elements import boolean_like, values_of
from tilesight.ir.module import DenseElements, Operation
from tilesight.ir.ops import arith, math
from tilesight.ir.ops.tt import loaded_type
from tilesight.ir.types import (
    FloatType,
    IndexType,
    IntegerType,
    PointerType,
    TensorType,
    Type,
    block_shape,
    element_type,
)


@dataclass(frozen=True)
class Problem:
    got: str
    expected: str


Rule = Callable[[Operation], Problem | None]


def _same(what: str, got: Type, expected: Type) -> Problem | None:
    return None if got == expected else Problem(f"{what} of type {got}", str(expected))


def _first(*problems: Problem | None) -> Problem | None:
    return next((problem for problem in problems if problem is not None), None)


def _is_integer(type_: Type) -> bool:
    return isinstance(element_type(type_), IntegerType | IndexType)


def _is_float(type_: Type) -> bool:
    return isinstance(element_type(type_), FloatType)


def _all_same(operation: Operation) -> Problem | None:
    result = operation.results[0].type
    return _first(*(_same(f"%{value.name}", value.type, result) for value in operation.operands))


def _elementwise(accepts: Callable[[Type], bool], words: str) -> Rule:
    """Operands and result of one type whose element `accepts` allows."""

    def rule(operation: Operation) -> Problem | None:
        result = operation.results[0].type
        if not accepts(result):
            return Problem(f"a result of type {result}", words)
        return _all_same(operation)

    return rule


integer_elementwise = _elementwise(_is_integer, "an integer or a tensor of integers")
float_elementwise = _elementwise(_is_float, "a float or a tensor of floats")


def check_comparison(accepts: Callable[[Type], bool], words: str) -> Rule:
    def rule(operation: Operation) -> Problem | None:
        lhs, rhs = operation.operands
        if not accepts(lhs.type):
            return Problem(f"%{lhs.name} of type {lhs.type}", words)
        result = _same("a result", operation.results[0].type, boolean_like(lhs.type))
        return _first(_same(f"%{rhs.name}", rhs.type, lhs.type), result)

    return rule


def check_select(operation: Operation) -> Problem | None:
    condition, true_value, false_value = operation.operands
    result = operation.results[0].type
    problem = _first(
        _same(f"%{true_value.name}", true_value.type, result), _same(f"%{false_value.name}", false_value.type, result)
    )
    if condition.type in (IntegerType(1), boolean_like(result)):
        return problem
    return Problem(f"a condition of type {condition.type}", f"i1 or {boolean_like(result)}")


def check_cast(source: Callable[[Type], bool], target: Callable[[Type], bool], order: int = 0) -> Rule:
    """Same shape, the right kinds, and a result that is wider (1), narrower (-1) or any (0)."""

    def rule(operation: Operation) -> Problem | None:
        before, after = operation.operands[0].type, operation.results[0].type
        if block_shape(before) != block_shape(after):
            return Problem(f"a cast from {before} to {after}", "one shape")
        if not source(before) or not target(after):
            return Problem(f"a cast from {before} to {after}", f"types that {operation.name} takes")
        growth = _bits(after) - _bits(before)
        if order and growth * order <= 0:
            return Problem(f"a cast from {before} to {after}", "a wider type" if order > 0 else "a narrower type")
        return None

    return rule


def _bits(type_: Type) -> int:
    element = element_type(type_)
    return element.bits if isinstance(element, IntegerType | FloatType) else 64


def check_constant(operation: Operation) -> Problem | None:
    value, type_ = operation.attributes.get("value"), operation.results[0].type
    if isinstance(value, DenseElements):
        return _same("a value", value.type, type_)
    if _is_float(type_) != isinstance(value, float) or not isinstance(value, int | float):
        return Problem(f"the value {value!r}", f"a number of type {type_}")
    if isinstance(type_, IntegerType) and not -(2 ** (type_.bits - 1)) <= value < 2**type_.bits:
        return Problem(f"the value {value}", f"one that fits {type_}")
    return None


def check_make_range(operation: Operation) -> Problem | None:
    start, end = operation.attributes.get("start"), operation.attributes.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or start >= end:
        return Problem(f"start {start} and end {end}", "start < end")
    return _same("a result", operation.results[0].type, TensorType((end - start,), IntegerType(32)))


def check_splat(operation: Operation) -> Problem | None:
    result = operation.results[0].type
    return _same("an operand", operation.operands[0].type, element_type(result))


def check_broadcast(operation: Operation) -> Problem | None:
    before, after = operation.operands[0].type, operation.results[0].type
    old, new = block_shape(before), block_shape(after)
    fits = len(old) == len(new) and all(a in (1, b) for a, b in zip(old, new, strict=True))
    if fits and element_type(before) == element_type(after):
        return None
    return Problem(f"a broadcast from {before} to {after}", "one rank and element, sizes equal or 1 before")


def check_expand_dims(operation: Operation) -> Problem | None:
    before, after = operation.operands[0].type, operation.results[0].type
    axis, shape = operation.attributes.get("axis"), block_shape(before)
    if not isinstance(axis, int) or not isinstance(before, TensorType) or not 0 <= axis <= len(shape):
        return Problem(f"axis {axis} for {before}", f"0 to {len(shape)}")
    return _same("a result", after, replace(before, shape=(*shape[:axis], 1, *shape[axis:])))


def check_same_elements(operation: Operation) -> Problem | None:
    """Reshape and its kin: the same number of elements of the same type."""
    before, after = operation.operands[0].type, operation.results[0].type
    if isinstance(before, TensorType) and isinstance(after, TensorType):
        if before.elements * len(operation.operands) != after.elements:
            return Problem(f"{before.elements * len(operation.operands)} elements into {after}", "as many elements")
        return _same("an element", before.element, after.element)
    return Problem(f"types {before} and {after}", "tensors")


def check_trans(operation: Operation) -> Problem | None:
    before, after = operation.operands[0].type, operation.results[0].type
    order, shape = operation.attributes.get("order"), block_shape(before)
    axes = [axis for axis in order if isinstance(axis, int)] if isinstance(order, tuple) else []
    if sorted(axes) != list(range(len(shape))) or not isinstance(before, TensorType):
        return Problem(f"order {order} for {before}", "each dimension once")
    return _same("a result", after, replace(before, shape=tuple(shape[axis] for axis in axes)))


def check_addptr(operation: Operation) -> Problem | None:
    pointer, offset = operation.operands
    if not isinstance(element_type(pointer.type), PointerType) or not _is_integer(offset.type):
        return Problem(f"operands of types {pointer.type} and {offset.type}", "a pointer and an integer")
    if block_shape(pointer.type) != block_shape(offset.type):
        return Problem(f"an offset of type {offset.type}", f"the shape of {pointer.type}")
    return _same("a result", operation.results[0].type, pointer.type)


def _masked(operation: Operation, pointed: Type) -> Problem | None:
    masks = [_same("a mask", value.type, boolean_like(pointed)) for value in values_of(operation, "mask")]
    return _first(*masks)


def check_load(operation: Operation) -> Problem | None:
    pointer = operation.operands[0].type
    pointed = loaded_type(pointer)
    if pointed is None:
        return Problem(f"a load through {pointer}", "a pointer or a tensor of pointers")
    others = [_same("other", value.type, pointed) for value in values_of(operation, "other")]
    return _first(_same("a result", operation.results[0].type, pointed), _masked(operation, pointed), *others)


def check_store(operation: Operation) -> Problem | None:
    """Stores and atomics: the value is what the pointer points to."""
    pointer = operation.operands[0].type
    pointed = loaded_type(pointer)
    if pointed is None:
        return Problem(f"an access through {pointer}", "a pointer or a tensor of pointers")
    values = [value for name in ("value", "compare") for value in values_of(operation, name)]
    results = [_same("a result", value.type, pointed) for value in operation.results]
    return _first(*(_same(f"%{v.name}", v.type, pointed) for v in values), _masked(operation, pointed), *results)


def check_dot(operation: Operation) -> Problem | None:
    shapes = [block_shape(value.type) for value in operation.operands[:3]]
    (*batch, rows, inner), right, accumulator = shapes
    if list(right[:-1]) != [*batch, inner] or list(accumulator) != [*batch, rows, right[-1]]:
        return Problem(f"a dot of {shapes[0]}, {shapes[1]} and {shapes[2]}", "[M, K], [K, N] and [M, N]")
    return _same("a result", operation.results[0].type, operation.operands[2].type)


def check_reduce(operation: Operation) -> Problem | None:
    axis = operation.attributes.get("axis")
    for value, result in zip(operation.operands, operation.results, strict=False):
        shape = block_shape(value.type)
        if not isinstance(axis, int) or not isinstance(value.type, TensorType) or not 0 <= axis < len(shape):
            return Problem(f"axis {axis} for {value.type}", "a dimension of a tensor")
        rest = (*shape[:axis], *shape[axis + 1 :])
        expected = replace(value.type, shape=rest) if rest else value.type.element
        if result.type != expected:
            return _same("a result", result.type, expected)
    return _paired(operation)


def _paired(operation: Operation) -> Problem | None:
    if len(operation.operands) == len(operation.results):
        return None
    return Problem(f"{len(operation.results)} results", f"one for each of {len(operation.operands)} operands")


def check_scan(operation: Operation) -> Problem | None:
    pairs = zip(operation.operands, operation.results, strict=False)
    return _first(_paired(operation), *(_same("a result", after.type, before.type) for before, after in pairs))


def check_condition(operation: Operation) -> Problem | None:
    return _same("a condition", values_of(operation, "condition")[0].type, IntegerType(1))


def check_bounds(operation: Operation) -> Problem | None:
    lower, upper, step = operation.operands[:3]
    if not isinstance(lower.type, IntegerType | IndexType):
        return Problem(f"bounds of type {lower.type}", "an integer or index")
    return _first(_same("the upper bound", upper.type, lower.type), _same("the step", step.type, lower.type))


RULES: dict[str, Rule] = {
    **{f"arith.{name}": integer_elementwise for name in (*arith.OVERFLOWING, *arith.INTEGER_BINARY)},
    **{f"arith.{name}": integer_elementwise for name in arith.EXACT_BINARY},
    **{f"arith.{name}": float_elementwise for name in (*arith.FLOAT_BINARY, "negf")},
    **{f"math.{name}": float_elementwise for name in (*math.FLOAT_UNARY, *math.BINARY, "fma")},
    **{f"math.{name}": integer_elementwise for name in (*math.INTEGER_UNARY, "ipowi")},
    **{f"tt.{name}": float_elementwise for name in ("clampf", "precise_sqrt", "precise_divf")},
    "tt.mulhiui": integer_elementwise,
    "arith.cmpi": check_comparison(_is_integer, "integers"),
    "arith.cmpf": check_comparison(_is_float, "floats"),
    "arith.select": check_select,
    "arith.constant": check_constant,
    "arith.extsi": check_cast(_is_integer, _is_integer, 1),
    "arith.extui": check_cast(_is_integer, _is_integer, 1),
    "arith.trunci": check_cast(_is_integer, _is_integer, -1),
    "arith.extf": check_cast(_is_float, _is_float, 1),
    "arith.truncf": check_cast(_is_float, _is_float, -1),
    "arith.sitofp": check_cast(_is_integer, _is_float),
    "arith.uitofp": check_cast(_is_integer, _is_float),
    "arith.fptosi": check_cast(_is_float, _is_integer),
    "arith.fptoui": check_cast(_is_float, _is_integer),
    "tt.fp_to_fp": check_cast(_is_float, _is_float),
    "tt.make_range": check_make_range,
    "tt.splat": check_splat,
    "tt.broadcast": check_broadcast,
    "tt.expand_dims": check_expand_dims,
    "tt.reshape": check_same_elements,
    "tt.cat": check_same_elements,
    "tt.join": check_same_elements,
    "tt.trans": check_trans,
    "tt.addptr": check_addptr,
    "tt.load": check_load,
    "tt.store": check_store,
    "tt.atomic_rmw": check_store,
    "tt.atomic_cas": check_store,
    "tt.dot": check_dot,
    "tt.reduce": check_reduce,
    "tt.scan": check_scan,
    "scf.if": check_condition,
    "scf.condition": check_condition,
    "cf.cond_br": check_condition,
    "scf.for": check_bounds,
}
