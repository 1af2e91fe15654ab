"""The elements of an assembly format for operands, types and groups, and `assembly`, which compiles one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilesight.ir.assembly import AssemblyFormat, Draft, Infer, join_parts, show_functional
from tilesight.ir.assembly_attributes import ATTRIBUTE_ELEMENTS, Dictionary, Element
from tilesight.ir.attribute_parser import parse_type
from tilesight.ir.attribute_printer import show_types
from tilesight.ir.module import Operation, Value
from tilesight.ir.type_parser import parse_optional_type
from tilesight.ir.types import FunctionType, IntegerType, TensorType, Type

if TYPE_CHECKING:
    from tilesight.ir.parser import Parser
    from tilesight.ir.printer import Printer


@dataclass(frozen=True)
class Operand(Element):
    variadic: bool = False

    def starts(self, parser: Parser) -> bool:
        return parser.cursor.token.kind == "value"

    def parse(self, parser: Parser, draft: Draft) -> None:
        if not self.variadic:
            draft.segments[self.text] = (parser.parse_value(),)
        elif self.starts(parser):
            draft.segments[self.text] = tuple(parser.cursor.comma_list(parser.parse_value))

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        return printer.show_values(operation.operand_segments.get(self.text, ()))


@dataclass(frozen=True)
class Types(Element):
    """The type or types of a segment or of the results."""

    def parse(self, parser: Parser, draft: Draft) -> None:
        cursor, token = parser.cursor, parser.cursor.token
        if self.text == "result":
            draft.result_types = [parse_type(cursor)]
        elif self.text == "results":
            draft.result_types = cursor.comma_list(lambda: parse_type(cursor))
        else:
            values = draft.segments[self.text]
            types = cursor.comma_list(lambda: parse_type(cursor)) if len(values) > 1 else [parse_type(cursor)]
            parser.check_types(list(values), tuple(types), token)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        own = self.text in ("result", "results")
        values = operation.results if own else operation.operand_segments.get(self.text, ())
        return show_types(value.type for value in values)


@dataclass(frozen=True)
class PrintedTwice(Types):
    """One printed type for two results."""

    def parse(self, parser: Parser, draft: Draft) -> None:
        draft.result_types = [parse_type(parser.cursor)] * 2

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        return str(operation.results[0].type)


@dataclass(frozen=True)
class ShortType(Types):
    """A type without its name: `<f16>` for `!tt.ptr<f16>`."""

    prefix: str = ""

    def parse(self, parser: Parser, draft: Draft) -> None:
        cursor, token = parser.cursor, parser.cursor.token
        cursor.expect("<")
        while cursor.token.kind != "end" and cursor.token.text != ">":
            cursor.advance()
        end = cursor.expect(">").offset + 1
        type_ = parse_optional_type(self.prefix + cursor.source.text[token.offset : end])
        if type_ is None:
            cursor.fail(f"the type after `{self.prefix}`, such as `<f16>`", token)
        if self.text == "result":
            draft.result_types = [type_]
        else:
            parser.check_types(list(draft.segments[self.text]), (type_,), token)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        return super().show(printer, operation, consumed).removeprefix(self.prefix)


@dataclass(frozen=True)
class Functional(Element):
    """`(A, B) -> C` for all operands, in the order of the text, and all results."""

    def parse(self, parser: Parser, draft: Draft) -> None:
        token = parser.cursor.token
        type_ = parse_type(parser.cursor)
        if not isinstance(type_, FunctionType):
            parser.cursor.fail("a function type such as `(i32) -> i32`", token)
        operands = [value for segment in draft.segments.values() for value in segment]
        parser.check_types(operands, type_.inputs, token)
        draft.result_types = list(type_.results)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        return show_functional(operation.operands, operation.results)


@dataclass(frozen=True)
class Group(Element):
    """Elements that are there together or not at all."""

    elements: tuple[Element, ...] = ()

    def attribute_names(self) -> tuple[str, ...]:
        return tuple(name for element in self.elements for name in element.attribute_names())

    def starts(self, parser: Parser) -> bool:
        return self.elements[0].starts(parser)

    def parse(self, parser: Parser, draft: Draft) -> None:
        if self.starts(parser):
            for element in self.elements:
                element.parse(parser, draft)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        parts = [(element, element.show(printer, operation, consumed)) for element in self.elements]
        filled = any(part for element, part in parts if type(element) is not Element)
        return join_parts([part for _, part in parts]) if filled else ""


_TYPE_ELEMENTS: dict[str, Callable[[str], Element]] = {
    "type": Types,
    "types": Types,
    "twice": PrintedTwice,
    "pointer": lambda name: ShortType(name, "!tt.ptr"),
    "descriptor": lambda name: ShortType(name, "!tt.tensordesc"),
}


def assembly(text: str, infer: Infer | None = None, operands: str = "") -> AssemblyFormat:
    """The format that `text` spells in the notation of `tilesight.ir.assembly`.

    Args:    infer: result types from the operands, where the text does not print them
             operands: the operand groups in the order of the IR (`ptr mask? other?`), where it is
             not the order of the text
    """
    words = text.split()
    elements = tuple(_read_elements(words))
    return AssemblyFormat(operands or " ".join(_operand_specs(text.split())), elements, infer)


def _operand_specs(words: list[str]) -> list[str]:
    depth = 0
    specs: list[str] = []
    for word in words:
        depth += (word == "[?") - (word == "]?")
        if word.startswith("%"):
            specs.append(word[1:] + ("?" if depth and not word.endswith("*") else ""))
    return specs


def _read_elements(words: list[str]) -> list[Element]:
    """Consume words up to the end or to the closing bracket of the group."""
    elements: list[Element] = []
    while words:
        word = words.pop(0)
        if word == "]?":
            break
        elements.append(Group("", tuple(_read_elements(words))) if word == "[?" else _read_element(word))
    return elements


def _read_element(word: str) -> Element:
    prefix, colon, rest = word.partition(":")
    if colon and prefix in ATTRIBUTE_ELEMENTS:
        name, _, attribute = rest.partition("=")
        return ATTRIBUTE_ELEMENTS[prefix](name, attribute)
    if word.startswith("%"):
        return Operand(word[1:].rstrip("*"), word.endswith("*"))
    if word.endswith(")") and len(word) > 1:
        kind, _, name = word[:-1].partition("(")
        return _TYPE_ELEMENTS[kind](name)
    if word == "functional":
        return Functional(word)
    return Dictionary(word) if word == "{}" else Element(word)


def same_type_as(segment: str) -> Infer:
    """One result of the type of an operand."""
    return lambda segments, attributes: (segments[segment][0].type,)


def boolean_like(type_: Type) -> Type:
    """i1 in the shape of `type_`."""
    return replace(type_, element=IntegerType(1)) if isinstance(type_, TensorType) else IntegerType(1)


def values_of(operation: Operation, segment: str) -> tuple[Value, ...]:
    """The operands of a segment; empty where the operation has none."""
    return operation.operand_segments.get(segment, ())
