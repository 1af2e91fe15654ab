"""Where a kernel accumulates or multiplies in a narrower type than float32: candidates, still to be measured."""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tilesight.checks.place import line_of, variable_of
from tilesight.checks.slices import flow_of
from tilesight.checks.widen import ARITHMETIC, CASTS, COMBINING, is_float
from tilesight.engine.launch import Launch
from tilesight.ir.module import Function, Module, Operation, Value
from tilesight.ir.types import FloatType, element_type

NARROW = frozenset({"f16", "bf16"})
SUMS = ("arith.addf", "arith.subf", "math.fma", "tt.dot")
ROUNDING = (*SUMS, "arith.mulf", "arith.divf")
FEWEST_UNROLLED = 4
"""Additions of one line, each to the last one's result, that count as a loop that was unrolled."""

Form = Literal["carried", "sum", "product", "tf32"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """An accumulation, or a product, in a narrow type.

    Args:
        form: carried around a loop, a reduction, a product with a narrow result, or one of f32 in tf32
        operation: whose line is named
        values: what is narrow, or made of tf32
        name: the author's name of the accumulator
        is_chosen: the author has asked for tf32 by name
    """

    form: Form
    operation: Operation
    values: frozenset[Value]
    name: str
    is_chosen: bool = False

    @property
    def type_name(self) -> str:
        """The narrow type's name, as authors write it."""
        narrow = next((element_type(value.type) for value in self.values), None)
        return {"f16": "float16", "bf16": "bfloat16"}.get(str(narrow), "tf32")


def is_narrow(value: Value) -> bool:
    element = element_type(value.type)
    return isinstance(element, FloatType) and element.name in NARROW


def find_candidates(module: Module, launch: Launch) -> list[Candidate]:
    """Every place of a module that accumulates in f16 or bf16, or multiplies f32 in tf32."""
    users = users_of(module)
    found: list[Candidate] = []
    for function in module.functions:
        found += _carried(function, module, users)
        found += _sums(function)
        found += _unrolled(function, module)
        found += _products(function, launch)
    kept: list[Candidate] = []
    for candidate in found:
        if not any(candidate.values <= other.values for other in kept):
            kept.append(candidate)
    return kept


Users = dict[Value, tuple[Value, ...]]


@lru_cache(maxsize=64)
def users_of(module: Module) -> Users:
    """Value → the values that may be it, or are computed from it in one step."""
    users: dict[Value, list[Value]] = {}
    for function in module.functions:
        for operation in function.walk():
            if operation.dialect not in ("scf", "cf"):
                for value in operation.operands:
                    users.setdefault(value, []).extend(operation.results)
    for target, sources in flow_of(module).sources.items():
        for value in sources:
            users.setdefault(value, []).append(target)
    return {value: tuple(dict.fromkeys(targets)) for value, targets in users.items()}


def reached(starts: Iterable[Value], step: Callable[[Value], Iterable[Value]]) -> set[Value]:
    """What can be reached from some values, themselves included."""
    seen: set[Value] = set()
    waiting = list(starts)
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            waiting += step(value)
    return seen


def _carried(function: Function, module: Module, users: Users) -> Iterator[Candidate]:
    """Values that a loop carries in a narrow type and adds to in each round."""
    flow = flow_of(module)
    for loop in function.walk():
        if loop.name not in ("scf.for", "scf.while"):
            continue
        inside = set(_defined_in(loop))
        for argument, yielded, result in _round_trips(loop):
            if not is_narrow(argument):
                continue

            def forward(value: Value, inside: set[Value] = inside) -> Iterator[Value]:
                return (user for user in users.get(value, ()) if user in inside and is_float(user))

            def backward(value: Value, inside: set[Value] = inside) -> Iterator[Value]:
                operation = flow.definitions.get(value)
                direct = operation.operands if operation and operation.dialect != "scf" else ()
                sources = (*direct, *flow.sources.get(value, ()))
                return (source for source in sources if source in inside and is_float(source))

            trip = reached([argument], forward) & reached([yielded], backward)
            operation = _rounding_operation(loop, trip)
            if yielded in trip and operation is not None:
                values = frozenset({*filter(is_narrow, trip), argument, result})
                yield Candidate("carried", operation, values, variable_of(argument) or variable_of(result))


def _round_trips(loop: Operation) -> Iterator[tuple[Value, Value, Value]]:
    """Each carried argument with what the loop yields for it, and the result that it leaves."""
    if loop.name == "scf.for":
        entry = loop.regions[0].entry
        yield from zip(entry.arguments[1:], entry.operations[-1].operands, loop.results, strict=True)
        return
    before, after = (region.entry for region in loop.regions)
    yielded = after.operations[-1].operands if after.operations else ()
    passed = dict(zip(before.operations[-1].operands[1:], loop.results, strict=True))
    for argument, value in zip(before.arguments, yielded, strict=True):
        yield argument, value, passed.get(argument, argument)


def _rounding_operation(loop: Operation, trip: set[Value]) -> Operation | None:
    """The operation that adds to what is carried: one that rounds to the narrow type before others."""
    made = [inner for inner in loop.walk() if any(result in trip for result in inner.results)]
    if not any(inner.name in ROUNDING for inner in made):
        return None
    narrow = [inner for inner in made if is_narrow(inner.results[0])]
    for names in (SUMS, ROUNDING, tuple(CASTS)):
        for inner in narrow:
            if inner.name in names:
                return inner
    return None


def _sums(function: Function) -> Iterator[Candidate]:
    """Reductions and scans that add in a narrow type."""
    for operation in function.walk():
        if operation.name not in COMBINING or not any(map(is_narrow, operation.results)):
            continue
        inner = [each for each in operation.walk() if each is not operation]
        if any(each.name in ("arith.addf", "arith.mulf") and is_narrow(each.results[0]) for each in inner):
            name = variable_of(operation.operands[0]) or variable_of(operation.results[0])
            yield Candidate("sum", operation, combined_values(operation), name)


def combined_values(operation: Operation) -> frozenset[Value]:
    """The narrow results of a reduction or scan, and what its region computes them with."""
    return frozenset(filter(is_narrow, (*operation.results, *_defined_in(operation))))


def _unrolled(function: Function, module: Module) -> Iterator[Candidate]:
    """Additions of one line in a row, as a loop leaves them that is unrolled when the kernel is compiled."""
    definitions = flow_of(module).definitions
    chains: dict[Operation, tuple[Operation, ...]] = {}
    for operation in function.walk():
        if operation.name not in SUMS or not is_narrow(operation.results[0]):
            continue
        place = operation.location.user_frame
        earlier = (definitions.get(value) for value in operation.operands)
        before = [chains[each] for each in earlier if each in chains and each.location.user_frame.line == place.line]
        chains[operation] = (*max(before, key=len, default=()), operation)
    ends = [chain for chain in chains.values() if len(chain) >= FEWEST_UNROLLED]
    for chain in sorted(ends, key=len, reverse=True):
        values = frozenset(each.results[0] for each in chain)
        yield Candidate("carried", chain[0], values, variable_of(chain[-1].results[0]))


def _products(function: Function, launch: Launch) -> Iterator[Candidate]:
    """Products with a narrow result, and products of f32 in tf32."""
    for operation in function.walk():
        if operation.name != "tt.dot":
            continue
        (result,) = operation.results
        if is_narrow(result):
            yield Candidate("product", operation, frozenset({result}), variable_of(result))
        elif _multiplies_in_tf32(operation):
            text = _text_of(operation, launch)
            is_chosen = "tf32" in text.lower() or "input_precision" in text
            if text:
                yield Candidate("tf32", operation, frozenset({result}), variable_of(result), is_chosen)


def _multiplies_in_tf32(operation: Operation) -> bool:
    is_f32 = element_type(operation.operands[0].type) == FloatType("f32")
    return is_f32 and operation.attributes.get("inputPrecision") == "tf32"


def _text_of(operation: Operation, launch: Launch) -> str:
    """The call of a product as its author wrote it; empty where it cannot be read."""
    file, line = line_of(operation, launch)
    return call_text(tuple(linecache.getlines(file)), line - 1) or call_text(
        tuple(launch.source.splitlines()), line - launch.first_line if file == launch.file else -1
    )


@lru_cache(maxsize=64)
def call_text(lines: tuple[str, ...], index: int) -> str:
    """The statement that a line is part of."""
    if not 0 <= index < len(lines):
        return ""
    text = textwrap.dedent("\n".join(line.rstrip("\n") for line in lines))
    for each in _simple_statements(text):
        if each.lineno <= index + 1 <= (each.end_lineno or each.lineno):
            return ast.get_source_segment(text, each) or lines[index]
    return lines[index]


@lru_cache(maxsize=8)
def _simple_statements(text: str) -> tuple[ast.stmt, ...]:
    """The statements of a file that hold no others; none where it is not Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    return tuple(each for each in ast.walk(tree) if isinstance(each, ast.stmt) and not hasattr(each, "body"))


def _defined_in(operation: Operation) -> Iterator[Value]:
    """Every value that an operation's regions define."""
    for region in operation.regions:
        for block in region.blocks:
            yield from block.arguments
            for inner in block.operations:
                yield from inner.results
                yield from _defined_in(inner)


def promoted_values(module: Module, candidates: Sequence[Candidate]) -> frozenset[Value]:
    """The values that are f32 where the candidates are: theirs, what they are computed from and what is from them.

    As in Triton's own promotion it goes on through arithmetic, and ends at casts, products and memory.
    """
    users, flow = users_of(module), flow_of(module)

    def near(value: Value) -> Iterator[Value]:
        operation = flow.definitions.get(value)
        if operation is not None and _promotes(operation):
            yield from operation.operands
            yield from combined_values(operation) if operation.name in COMBINING else operation.results
        yield from flow.sources.get(value, ())
        for user in users.get(value, ()):
            made_by = flow.definitions.get(user)
            if made_by is None or made_by.dialect == "scf" or _promotes(made_by):
                yield user

    starts = [value for candidate in candidates for value in candidate.values]
    return frozenset(reached(starts, lambda value: filter(is_narrow, near(value))))


def _promotes(operation: Operation) -> bool:
    """Whether an operation computes in the widest type of its operands."""
    return operation.dialect == "math" or operation.name in ARITHMETIC | COMBINING
