"""The `arith` dialect: constants, arithmetic, comparisons and casts.

Attributes: `value` of a constant (int, float or DenseElements; i1 true and false are 1 and 0),
`predicate` of a comparison (`slt`, `oeq`, ...), `fastmath` (`"fast"`, `"nnan, ninf"`) and
`overflowFlags` (`"nsw, nuw"`) as printed between the angle brackets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilesight.ir.assembly import AssemblyFormat, CustomFormat, Draft, OperationFormat, Segments, join_parts
from tilesight.ir.assembly_elements import assembly, boolean_like
from tilesight.ir.attribute_parser import (
    parse_dense,
    parse_number,
    parse_optional_attribute_dictionary,
    parse_type,
)
from tilesight.ir.attribute_printer import show_dense, show_dictionary, show_number
from tilesight.ir.module import Attribute, DenseElements, Operation
from tilesight.ir.types import IntegerType, TensorType, Type

if TYPE_CHECKING:
    from tilesight.ir.parser import Parser
    from tilesight.ir.printer import Printer

OVERFLOWING = ["addi", "subi", "muli", "shli"]
INTEGER_BINARY = [
    "andi",
    "ori",
    "xori",
    "maxsi",
    "maxui",
    "minsi",
    "minui",
    "ceildivsi",
    "ceildivui",
    "floordivsi",
    "remsi",
    "remui",
]
EXACT_BINARY = ["divsi", "divui", "shrsi", "shrui"]
FLOAT_BINARY = ["addf", "subf", "mulf", "divf", "remf", "maximumf", "minimumf", "maxnumf", "minnumf"]
CASTS = ["extsi", "sitofp", "fptosi", "fptoui", "index_cast", "index_castui", "bitcast"]
NON_NEGATIVE_CASTS = ["extui", "uitofp"]
ROUNDING = "to_nearest_even|downward|upward|toward_zero|to_nearest_away"


def _comparison_result(segments: Segments, attributes: Mapping[str, Attribute]) -> tuple[Type, ...]:
    return (boolean_like(segments["lhs"][0].type),)


def _read_constant(parser: Parser, draft: Draft) -> None:
    cursor = parser.cursor
    draft.attributes.update(parse_optional_attribute_dictionary(cursor))
    if cursor.token.text == "dense":
        dense = parse_dense(cursor)
        draft.attributes["value"] = dense
        draft.result_types = [dense.type]
        return
    if cursor.token.text in ("true", "false") and cursor.peek().text != ":":
        draft.attributes["value"] = int(cursor.advance().text == "true")
        draft.result_types = [IntegerType(1)]
        return
    colon = cursor.peek()
    if colon.text != ":":
        cursor.fail("a number with its type, or dense<...>")
    type_ = _type_after_colon(parser)
    draft.attributes["value"] = parse_number(cursor, type_)
    cursor.expect(":")
    draft.result_types = [parse_type(cursor)]


def _type_after_colon(parser: Parser) -> Type:
    """The type behind `value :`, read ahead because the literal depends on it."""
    cursor = parser.cursor
    start = cursor.index
    cursor.advance()
    cursor.expect(":")
    type_ = parse_type(cursor)
    cursor.move_to(start)
    return type_


def _show_constant(printer: Printer, operation: Operation) -> str:
    value, type_ = operation.attributes["value"], operation.results[0].type
    rest = show_dictionary({name: other for name, other in operation.attributes.items() if name != "value"})
    if isinstance(value, DenseElements):
        return join_parts([operation.name, rest, show_dense(value)])
    assert isinstance(value, int | float)
    shown = show_number(value, type_)
    return join_parts([operation.name, rest, shown if type_ == IntegerType(1) else f"{shown} : {type_}"])


_SELECT = assembly("%condition , %true_value , %false_value {} : type(result)")
_SELECT_BY_TENSOR = assembly("%condition , %true_value , %false_value {} : type(condition) , type(result)")


def _read_select(parser: Parser, draft: Draft) -> None:
    """The condition's type is printed only where it is a tensor."""
    cursor = parser.cursor
    start = cursor.index
    while cursor.token.text != ":":
        if cursor.token.kind == "end":
            cursor.fail("`:` and the types of arith.select")
        cursor.advance()
    by_tensor = cursor.peek(2).text == ","
    cursor.move_to(start)
    (_SELECT_BY_TENSOR if by_tensor else _SELECT).parse(parser, draft)


def _show_select(printer: Printer, operation: Operation) -> str:
    by_tensor = isinstance(operation.operands[0].type, TensorType)
    return (_SELECT_BY_TENSOR if by_tensor else _SELECT).show(printer, operation)


def _binary(text: str) -> AssemblyFormat:
    return assembly(f"%lhs , %rhs {text} {{}} : type(result)")


FORMATS: dict[str, OperationFormat] = {
    "arith.constant": CustomFormat("", _read_constant, _show_constant),
    "arith.select": CustomFormat(_SELECT.operands, _read_select, _show_select),
    "arith.cmpi": assembly("word:predicate , %lhs , %rhs {} : type(lhs)", _comparison_result),
    "arith.cmpf": assembly("word:predicate , %lhs , %rhs flags:fastmath {} : type(lhs)", _comparison_result),
    "arith.negf": assembly("%operand flags:fastmath {} : type(result)"),
    **{f"arith.{name}": _binary("flags:overflow=overflowFlags") for name in OVERFLOWING},
    **{f"arith.{name}": _binary("") for name in INTEGER_BINARY},
    **{f"arith.{name}": _binary("flag:exact") for name in EXACT_BINARY},
    **{f"arith.{name}": _binary("flags:fastmath") for name in FLOAT_BINARY},
    "arith.addui_extended": assembly("%lhs , %rhs {} : types(results)"),
    "arith.mulsi_extended": assembly("%lhs , %rhs {} : twice(result)"),
    "arith.mului_extended": assembly("%lhs , %rhs {} : twice(result)"),
    **{f"arith.{name}": assembly("%in {} : type(in) to type(result)") for name in CASTS},
    **{f"arith.{name}": assembly("%in flag:nneg {} : type(in) to type(result)") for name in NON_NEGATIVE_CASTS},
    "arith.trunci": assembly("%in flags:overflow=overflowFlags {} : type(in) to type(result)"),
    "arith.extf": assembly("%in flags:fastmath {} : type(in) to type(result)"),
    "arith.truncf": assembly(f"%in one:roundingmode={ROUNDING} flags:fastmath {{}} : type(in) to type(result)"),
    "arith.scaling_extf": assembly("%in , %scale flags:fastmath {} : type(in) , type(scale) to type(result)"),
    "arith.scaling_truncf": assembly(
        f"%in , %scale one:roundingmode={ROUNDING} flags:fastmath {{}} : type(in) , type(scale) to type(result)"
    ),
}
