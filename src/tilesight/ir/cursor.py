"""A position in a list of tokens, and the few ways to move it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from tilesight.ir.lexer import Source, Token, tokenize

T = TypeVar("T")


class Cursor:
    """Reads tokens one after another; `token` is the next one."""

    def __init__(self, source: Source, tokens: list[Token] | None = None) -> None:
        self.source = source
        self.tokens = tokenize(source) if tokens is None else tokens
        self.index = 0
        self.token = self.tokens[0]
        self._last = len(self.tokens) - 1

    def advance(self) -> Token:
        """The next token, taken."""
        token = self.token
        if self.index < self._last:
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def move_to(self, index: int) -> None:
        """Make the token at `index` the next one."""
        self.index = index
        self.token = self.tokens[index]

    def peek(self, distance: int = 1) -> Token:
        """The token `distance` after the next one."""
        return self.tokens[min(self.index + distance, self._last)]

    def accept(self, text: str) -> bool:
        """Whether the next token was `text`; it is taken if so."""
        if self.token.text != text:
            return False
        self.advance()
        return True

    def expect(self, text: str) -> Token:
        if self.token.text != text:
            self.fail(f"`{text}`")
        return self.advance()

    def expect_kind(self, kind: str, expected: str) -> Token:
        if self.token.kind != kind:
            self.fail(expected)
        return self.advance()

    def expect_integer(self, expected: str) -> int:
        """A number without sign or point, such as a line or a count."""
        if not self.token.text.isdecimal():
            self.fail(expected)
        return int(self.advance().text)

    def skip_brackets(self) -> None:
        """Pass over the next token and the parentheses behind it."""
        start = self.index + 1
        depth = 0
        for index in range(start, self._last + 1):
            text = self.tokens[index].text
            depth += (text == "(") - (text == ")")
            if depth == 0:
                self.move_to(min(index + 1, self._last))
                return
        self.fail("a closing parenthesis")

    def fail(self, expected: str, token: Token | None = None, got: str = "", next_step: str = "") -> NoReturn:
        token = token or self.token
        shown = token.text if token.kind == "end" else f"`{token.text}`"
        raise self.source.error(token.offset, got or f"unexpected {shown}", expected, next_step)

    def comma_list(self, parse: Callable[[], T]) -> list[T]:
        """One or more items with commas between."""
        items = [parse()]
        while self.accept(","):
            items.append(parse())
        return items

    def enclosed_list(self, opening: str, closing: str, parse: Callable[[], T]) -> list[T]:
        """Zero or more items with commas between, inside a pair of brackets."""
        self.expect(opening)
        if self.accept(closing):
            return []
        items = self.comma_list(parse)
        self.expect(closing)
        return items
