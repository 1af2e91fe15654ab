"""The `scf` dialect: loops and conditions with regions.

A region whose text has no terminator gets the empty `scf.yield` that MLIR leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilesight.ir.assembly import CustomFormat, Draft, OperationFormat, join_parts, show_functional
from tilesight.ir.assembly_elements import assembly, values_of
from tilesight.ir.attribute_parser import (
    parse_function_type,
    parse_optional_attribute_dictionary,
    parse_result_types,
    parse_type,
)
from tilesight.ir.attribute_printer import show_dictionary, show_types
from tilesight.ir.lexer import Token
from tilesight.ir.module import Operation, Region, Value
from tilesight.ir.types import IndexType, Type

if TYPE_CHECKING:
    from tilesight.ir.parser import Parser
    from tilesight.ir.printer import Printer


def _add_missing_yield(region: Region) -> None:
    last = region.blocks[-1].operations
    if not last or last[-1].name != "scf.yield":
        last.append(Operation("scf.yield", operand_segments={"values": ()}))


def _read_assignments(parser: Parser) -> list[tuple[Token, Value]]:
    """`(%a = %x, %b = %y)`: the new name's token with the outer value."""

    def read_one() -> tuple[Token, Value]:
        name = parser.cursor.expect_kind("value", "an argument such as `%name = %value`")
        parser.cursor.expect("=")
        return name, parser.parse_value()

    return parser.cursor.enclosed_list("(", ")", read_one)


def _show_assignments(printer: Printer, arguments: tuple[Value, ...], values: tuple[Value, ...]) -> str:
    pairs = zip(arguments, values, strict=True)
    return ", ".join(f"%{argument.name} = %{value.name}" for argument, value in pairs)


def _define_all(parser: Parser, tokens: list[Token], types: list[Type]) -> list[Value]:
    values = [Value(token.text[1:], type_) for token, type_ in zip(tokens, types, strict=True)]
    for token, value in zip(tokens, values, strict=True):
        parser.define(token, value)
    return values


def _read_for(parser: Parser, draft: Draft) -> None:
    """`scf.for %i = %lower to %upper step %step iter_args(%a = %x) -> (A) : i32 { ... } {attributes}`."""
    cursor = parser.cursor
    if cursor.accept("unsigned"):
        draft.attributes["unsignedCmp"] = True
    induction = cursor.expect_kind("value", "the induction variable")
    for segment, word in (("lower", "="), ("upper", "to"), ("step", "step")):
        cursor.expect(word)
        draft.segments[segment] = (parser.parse_value(),)
    assignments = _read_assignments(parser) if cursor.accept("iter_args") else []
    draft.segments["init"] = tuple(value for _, value in assignments)
    token = cursor.token
    if cursor.accept("->"):
        draft.result_types = list(parse_result_types(cursor))
    parser.check_types(list(draft.segments["init"]), tuple(draft.result_types), token)
    typed = cursor.accept(":")
    token = cursor.token
    bound_type = parse_type(cursor) if typed else IndexType()
    parser.check_types([draft.segments[name][0] for name in ("lower", "upper", "step")], (bound_type,) * 3, token)
    parser.push_scope()
    tokens = [induction, *(token for token, _ in assignments)]
    arguments = _define_all(parser, tokens, [bound_type, *draft.result_types])
    draft.regions = [parser.parse_region(arguments)]
    parser.pop_scope()
    _add_missing_yield(draft.regions[0])
    draft.attributes.update(parse_optional_attribute_dictionary(cursor))


def _show_for(printer: Printer, operation: Operation) -> str:
    lower, upper, step = operation.operands[:3]
    body = operation.regions[0]
    induction, *arguments = body.entry.arguments
    unsigned = " unsigned" if operation.attributes.get("unsignedCmp") else ""
    text = f"scf.for{unsigned} %{induction.name} = %{lower.name} to %{upper.name} step %{step.name}"
    init = values_of(operation, "init")
    if init:
        assignments = _show_assignments(printer, tuple(arguments), init)
        text += f" iter_args({assignments}) -> ({show_types(value.type for value in init)})"
    if induction.type != IndexType():
        text += f" : {induction.type}"
    region = printer.show_region(body, entry_arguments=False, terminator=bool(init))
    rest = {name: value for name, value in operation.attributes.items() if name != "unsignedCmp"}
    return join_parts([text, region, show_dictionary(rest)])


def _read_if(parser: Parser, draft: Draft) -> None:
    """`scf.if %condition -> (A) { ... } else { ... } {attributes}`."""
    cursor = parser.cursor
    draft.segments["condition"] = (parser.parse_value(),)
    if cursor.accept("->"):
        draft.result_types = list(parse_result_types(cursor))
    draft.regions = [parser.parse_region()]
    draft.regions.append(parser.parse_region() if cursor.accept("else") else Region())
    for region in draft.regions:
        if region.blocks:
            _add_missing_yield(region)
    draft.attributes.update(parse_optional_attribute_dictionary(cursor))


def _show_if(printer: Printer, operation: Operation) -> str:
    text = f"scf.if %{operation.operands[0].name}"
    has_results = bool(operation.results)
    if has_results:
        text += f" -> ({show_types(value.type for value in operation.results)})"
    then, otherwise = operation.regions
    text += f" {printer.show_region(then, terminator=has_results)}"
    if otherwise.blocks:
        text += f" else {printer.show_region(otherwise, terminator=has_results)}"
    return join_parts([text, show_dictionary(operation.attributes)])


def _read_while(parser: Parser, draft: Draft) -> None:
    """`scf.while (%a = %x) : (A) -> (B) { ... } do { ^bb0(%b: B): ... } attributes {...}`."""
    cursor = parser.cursor
    assignments = _read_assignments(parser) if cursor.token.text == "(" else []
    draft.segments["init"] = tuple(value for _, value in assignments)
    cursor.expect(":")
    token = cursor.token
    type_ = parse_function_type(cursor)
    parser.check_types(list(draft.segments["init"]), type_.inputs, token)
    draft.result_types = list(type_.results)
    parser.push_scope()
    before = _define_all(parser, [token for token, _ in assignments], list(type_.inputs))
    draft.regions = [parser.parse_region(before)]
    parser.pop_scope()
    cursor.expect("do")
    draft.regions.append(parser.parse_region())
    _add_missing_yield(draft.regions[1])
    if cursor.accept("attributes"):
        draft.attributes.update(parse_optional_attribute_dictionary(cursor))


def _show_while(printer: Printer, operation: Operation) -> str:
    before, after = operation.regions
    assignments = _show_assignments(printer, before.entry.arguments, operation.operands)
    head = f"scf.while ({assignments})" if assignments else "scf.while"
    functional = show_functional(operation.operands, operation.results)
    regions = f"{printer.show_region(before, entry_arguments=False)} do {printer.show_region(after)}"
    attributes = f" attributes {show_dictionary(operation.attributes)}" if operation.attributes else ""
    return f"{head} : {functional} {regions}{attributes}"


FORMATS: dict[str, OperationFormat] = {
    "scf.for": CustomFormat("lower upper step init*", _read_for, _show_for),
    "scf.if": CustomFormat("condition", _read_if, _show_if),
    "scf.while": CustomFormat("init*", _read_while, _show_while),
    "scf.condition": assembly("( %condition ) {} [? %args* : types(args) ]?"),
    "scf.yield": assembly("{} [? %values* : types(values) ]?"),
}
