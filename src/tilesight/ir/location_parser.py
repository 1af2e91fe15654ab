"""`loc(...)` text → Location, through aliases that may be defined after their use."""

from __future__ import annotations

from dataclasses import replace

from tilesight.ir.attribute_parser import unescape
from tilesight.ir.cursor import Cursor
from tilesight.ir.lexer import Source, Token
from tilesight.ir.module import UNKNOWN, Location


class LocationTable:
    """The `#loc = loc(...)` lines of a text, resolved when first asked for."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source = source
        self._tokens = tokens
        self._definitions = {
            token.text: index + 2
            for index, token in enumerate(tokens[:-2])
            if token.kind == "attribute" and tokens[index + 1].text == "="
        }
        self._resolved: dict[str, Location] = {}
        self._pending: set[str] = set()

    def parse(self, cursor: Cursor) -> Location:
        """`loc(...)` at the cursor."""
        cursor.expect("loc")
        cursor.expect("(")
        location = self._parse_body(cursor)
        cursor.expect(")")
        return location

    def parse_optional(self, cursor: Cursor) -> Location:
        """`loc(...)` at the cursor, or the unknown location where there is none."""
        return self.parse(cursor) if cursor.token.text == "loc" else UNKNOWN

    def _parse_body(self, cursor: Cursor) -> Location:
        token = cursor.token
        if token.kind == "attribute":
            cursor.advance()
            return self._resolve(token, cursor)
        if token.kind == "string":
            return self._parse_file_or_name(cursor)
        if token.text == "callsite":
            return self._parse_callsite(cursor)
        if token.text == "fused":
            return self._parse_fused(cursor)
        if token.text == "loc":
            return self.parse(cursor)
        if token.text != "unknown":
            cursor.fail('a location: `#alias`, "file":line:column, "name"(...), callsite, fused or unknown')
        cursor.advance()
        return UNKNOWN

    def _parse_file_or_name(self, cursor: Cursor) -> Location:
        text = unescape(cursor.advance().text[1:-1])
        if cursor.accept(":"):
            line = cursor.expect_integer("a line number")
            cursor.expect(":")
            column = cursor.expect_integer("a column number")
            self._skip_range_end(cursor)
            return Location(text, line, column)
        if cursor.accept("("):
            child = self._parse_body(cursor)
            cursor.expect(")")
            return replace(child, name=text)
        return Location(name=text)

    def _skip_range_end(self, cursor: Cursor) -> None:
        """The end of a range (`"f.py":1:2 to 3:4`) is not kept."""
        if cursor.accept("to"):
            while cursor.token.kind == "number" or cursor.token.text == ":":
                cursor.advance()

    def _parse_callsite(self, cursor: Cursor) -> Location:
        cursor.expect("callsite")
        cursor.expect("(")
        callee = self._parse_body(cursor)
        cursor.expect("at")
        caller = self._parse_body(cursor)
        cursor.expect(")")
        chain = (*callee.callers, replace(caller, callers=()), *caller.callers)
        return replace(callee, callers=chain)

    def _parse_fused(self, cursor: Cursor) -> Location:
        """The first part that has a file."""
        cursor.expect("fused")
        if cursor.accept("<"):
            while not cursor.accept(">"):
                cursor.advance()
        parts = cursor.enclosed_list("[", "]", lambda: self._parse_body(cursor))
        return next((part for part in parts if part.file), UNKNOWN)

    def _resolve(self, reference: Token, cursor: Cursor) -> Location:
        name = reference.text
        if name in self._resolved:
            return self._resolved[name]
        definition = self._definitions.get(name)
        if definition is None or name in self._pending:
            cursor.fail("an alias that is defined and does not contain itself", reference, f"location {name}")
        self._pending.add(name)
        body = Cursor(self.source, self._tokens)
        body.move_to(definition)
        self._resolved[name] = self.parse(body)
        self._pending.discard(name)
        return self._resolved[name]
