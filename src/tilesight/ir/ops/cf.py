"""The `cf` dialect: branches between the blocks of one region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilesight.ir.assembly import CustomFormat, Draft, OperationFormat, join_parts
from tilesight.ir.assembly_elements import assembly
from tilesight.ir.attribute_parser import parse_optional_attribute_dictionary, parse_type
from tilesight.ir.attribute_printer import show_dictionary, show_types
from tilesight.ir.module import Block, Operation, Value

if TYPE_CHECKING:
    from tilesight.ir.parser import Parser
    from tilesight.ir.printer import Printer


def _read_target(parser: Parser) -> tuple[Block, tuple[Value, ...]]:
    """`^label` or `^label(%a, %b : A, B)`."""
    block = parser.parse_successor()
    cursor = parser.cursor
    if not cursor.accept("("):
        return block, ()
    values = cursor.comma_list(parser.parse_value)
    cursor.expect(":")
    token = cursor.token
    parser.check_types(values, tuple(cursor.comma_list(lambda: parse_type(cursor))), token)
    cursor.expect(")")
    return block, tuple(values)


def _show_target(printer: Printer, target: tuple[Block, tuple[Value, ...]]) -> str:
    block, values = target
    if not values:
        return f"^{block.label}"
    return f"^{block.label}({printer.show_values(values)} : {show_types(value.type for value in values)})"


def _read_branch(parser: Parser, draft: Draft) -> None:
    draft.successors = [_read_target(parser)]
    draft.attributes.update(parse_optional_attribute_dictionary(parser.cursor))


def _show_branch(printer: Printer, operation: Operation) -> str:
    target = _show_target(printer, operation.successors[0])
    return join_parts([operation.name, target, show_dictionary(operation.attributes)])


def _read_conditional_branch(parser: Parser, draft: Draft) -> None:
    draft.segments["condition"] = (parser.parse_value(),)
    parser.cursor.expect(",")
    first = _read_target(parser)
    parser.cursor.expect(",")
    draft.successors = [first, _read_target(parser)]
    draft.attributes.update(parse_optional_attribute_dictionary(parser.cursor))


def _show_conditional_branch(printer: Printer, operation: Operation) -> str:
    targets = ", ".join(_show_target(printer, target) for target in operation.successors)
    head = f"{operation.name} {printer.show_values(operation.operands)}, {targets}"
    return join_parts([head, show_dictionary(operation.attributes)])


FORMATS: dict[str, OperationFormat] = {
    "cf.br": CustomFormat("", _read_branch, _show_branch),
    "cf.cond_br": CustomFormat("condition", _read_conditional_branch, _show_conditional_branch),
    "cf.assert": assembly("%condition , text:msg {}"),
}
