"""The elements of an assembly format that read and print attributes; see `assembly` for the notation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilesight.ir.assembly import Draft
from tilesight.ir.attribute_parser import (
    parse_optional_attribute_dictionary,
    parse_string,
    parse_symbol,
)
from tilesight.ir.attribute_printer import show_dictionary, show_string, show_symbol
from tilesight.ir.module import Operation, SymbolRef

if TYPE_CHECKING:
    from tilesight.ir.parser import Parser
    from tilesight.ir.printer import Printer


@dataclass(frozen=True)
class Element:
    """One part of a format; `text` is a literal, a name or a key, by class."""

    text: str

    def attribute_names(self) -> tuple[str, ...]:
        """The attributes that this element prints, so that the dictionary leaves them out."""
        return ()

    def starts(self, parser: Parser) -> bool:
        """Whether the next token begins this element."""
        return parser.cursor.token.text == self.text

    def parse(self, parser: Parser, draft: Draft) -> None:
        parser.cursor.expect(self.text)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        """The text, or nothing where the operation has none of it."""
        return self.text


@dataclass(frozen=True)
class AttributeElement(Element):
    """An attribute with its own place in the text."""

    attribute: str = ""

    def attribute_names(self) -> tuple[str, ...]:
        return (self.attribute or self.text,)

    def value(self, operation: Operation) -> str:
        """The attribute as a string; empty where the operation has none."""
        value = operation.attributes.get(self.attribute or self.text, "")
        return value if isinstance(value, str) else str(value).lower()


@dataclass(frozen=True)
class Word(AttributeElement):
    def starts(self, parser: Parser) -> bool:
        return parser.cursor.token.kind == "word"

    def parse(self, parser: Parser, draft: Draft) -> None:
        draft.attributes[self.text] = parser.cursor.expect_kind("word", f"a word for {self.text}").text

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        return self.value(operation)


@dataclass(frozen=True)
class QuotedText(AttributeElement):
    def parse(self, parser: Parser, draft: Draft) -> None:
        draft.attributes[self.text] = parse_string(parser.cursor)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        return show_string(self.value(operation))


@dataclass(frozen=True)
class Symbol(AttributeElement):
    def parse(self, parser: Parser, draft: Draft) -> None:
        draft.attributes[self.text] = parse_symbol(parser.cursor)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        symbol = operation.attributes[self.text]
        assert isinstance(symbol, SymbolRef)
        return show_symbol(symbol)


@dataclass(frozen=True)
class Flag(AttributeElement):
    def parse(self, parser: Parser, draft: Draft) -> None:
        if parser.cursor.accept(self.text):
            draft.attributes[self.text] = True

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        return self.text if operation.attributes.get(self.text) else ""


@dataclass(frozen=True)
class OneOf(AttributeElement):
    """`text` is the attribute, `attribute` the accepted words with bars between."""

    def attribute_names(self) -> tuple[str, ...]:
        return (self.text,)

    def parse(self, parser: Parser, draft: Draft) -> None:
        if parser.cursor.token.text in self.attribute.split("|"):
            draft.attributes[self.text] = parser.cursor.advance().text

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        value = operation.attributes.get(self.text, "")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True)
class Enumeration(AttributeElement):
    """A word kept as its position in `attribute`: x, y, z as 0, 1, 2."""

    def attribute_names(self) -> tuple[str, ...]:
        return (self.text,)

    def parse(self, parser: Parser, draft: Draft) -> None:
        words = self.attribute.split("|")
        if parser.cursor.token.text not in words:
            parser.cursor.fail(f"one of {', '.join(words)}")
        draft.attributes[self.text] = words.index(parser.cursor.advance().text)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        position = operation.attributes[self.text]
        assert isinstance(position, int)
        return self.attribute.split("|")[position]


@dataclass(frozen=True)
class Bars(Word):
    """Words with bars between, kept as one string: `local|global_read`."""

    def parse(self, parser: Parser, draft: Draft) -> None:
        super().parse(parser, draft)
        while parser.cursor.accept("|"):
            more = parser.cursor.expect_kind("word", f"a word for {self.text}").text
            draft.attributes[self.text] = f"{draft.attributes[self.text]}|{more}"


@dataclass(frozen=True)
class Keys(AttributeElement):
    """`name = word`, for each of the names in `text` (`a|b`), in any order."""

    def attribute_names(self) -> tuple[str, ...]:
        return tuple(self.text.split("|"))

    def starts(self, parser: Parser) -> bool:
        return parser.cursor.token.text in self.attribute_names()

    def parse(self, parser: Parser, draft: Draft) -> None:
        while self.starts(parser):
            name = parser.cursor.advance().text
            parser.cursor.expect("=")
            draft.attributes[name] = parser.cursor.expect_kind("word", f"a word for {name}").text

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        known = [(name, operation.attributes[name]) for name in self.attribute_names() if name in operation.attributes]
        return " ".join(f"{name} = {value}" for name, value in known)


@dataclass(frozen=True)
class Flags(AttributeElement):
    """`fastmath<nnan, ninf>`, kept as the text between the brackets."""

    def parse(self, parser: Parser, draft: Draft) -> None:
        cursor = parser.cursor
        if cursor.accept(self.text):
            cursor.expect("<")
            words = cursor.comma_list(lambda: cursor.expect_kind("word", f"a {self.text} flag").text)
            cursor.expect(">")
            draft.attributes[self.attribute or self.text] = ", ".join(words)

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        value = self.value(operation)
        return f"{self.text}<{value}>" if value else ""


@dataclass(frozen=True)
class Dictionary(Element):
    def starts(self, parser: Parser) -> bool:
        return parser.cursor.token.text == "{"

    def parse(self, parser: Parser, draft: Draft) -> None:
        draft.attributes.update(parse_optional_attribute_dictionary(parser.cursor))

    def show(self, printer: Printer, operation: Operation, consumed: Collection[str]) -> str:
        return show_dictionary({key: value for key, value in operation.attributes.items() if key not in consumed})


ATTRIBUTE_ELEMENTS: dict[str, Callable[[str, str], Element]] = {
    "word": Word,
    "text": QuotedText,
    "symbol": Symbol,
    "flag": Flag,
    "key": Keys,
    "flags": Flags,
    "one": OneOf,
    "bars": Bars,
    "enum": Enumeration,
}
