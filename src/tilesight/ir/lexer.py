"""TTIR text → tokens: one compiled regular expression, and errors that point into the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from tilesight.errors import ParseError

NESTING = 6  # angle brackets inside angle brackets; a pointer to a tensor with an encoding needs 4


def _angle_brackets(depth: int) -> str:
    inner = r"[^<>]+" if depth == 1 else rf"[^<>]+|{_angle_brackets(depth - 1)}"
    return rf"<(?:{inner})*>"


_ANGLES = _angle_brackets(NESTING)

_IGNORED = frozenset({"bad", "comment"})

TOKEN = re.compile(
    rf"""
    \s*
    (?:
      (?P<punctuation>[(){{}}\[\]<>,:=*?|+])
    | (?P<value>%[\w.$-]+(?:\#\d+)?)
    | (?P<type>(?:tensor|vector|memref|complex)(?=<){_ANGLES}|![A-Za-z_][\w.$]*(?:{_ANGLES})?)
    | (?P<word>[A-Za-z_][\w.$]*)
    | (?P<attribute>\#[\w.$-]+(?:{_ANGLES})?)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<arrow>->)
    | (?P<number>-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?))
    | (?P<block>\^[\w.$-]+)
    | (?P<symbol>@(?:[\w.$-]+|"(?:[^"\\\n]|\\.)*"))
    | (?P<comment>//[^\n]*)
    | (?P<bad>\S)
    )
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str
    text: str
    offset: int


class TtirSyntaxError(ParseError):
    """A ParseError whose text also shows the source line with a caret under the place."""

    def __init__(self, got: str, *, where: str, expected: str = "", next_step: str = "", snippet: str = "") -> None:
        super().__init__(got, where=where, expected=expected, next_step=next_step)
        self.snippet = snippet

    def __str__(self) -> str:
        return f"{self._one_line()}\n{self.snippet}"


@dataclass(frozen=True)
class Source:
    """The text being parsed and its name; turns an offset into file:line:column and a caret."""

    text: str
    file: str
    line_starts: list[int] = field(default_factory=list[int], compare=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        if not self.line_starts:
            self.line_starts.extend([0, *(match.end() for match in re.finditer("\n", self.text))])
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def error(self, offset: int, got: str, expected: str = "", next_step: str = "") -> TtirSyntaxError:
        line, column = self.position(offset)
        text = self.text.split("\n")[line - 1]
        snippet = f"    {text}\n    {' ' * (column - 1)}^"
        where = f"{self.file}:{line}:{column}"
        return TtirSyntaxError(got, where=where, expected=expected, next_step=next_step, snippet=snippet)


def tokenize(source: Source) -> list[Token]:
    """Every token of the text, closed by one of kind `end`.

    A whole bracketed type (`tensor<4x!tt.ptr<f32>>`) is one token.

    Raises:  TtirSyntaxError: a character that TTIR does not use
    """
    tokens: list[Token] = []
    for match in TOKEN.finditer(source.text):
        kind = match.lastgroup or "comment"
        if kind in _IGNORED:
            if kind == "bad":
                raise source.error(match.start(kind), f"character {match[kind]!r}", "TTIR text")
            continue
        tokens.append(Token(kind, match[kind], match.start(kind)))
    tokens.append(Token("end", "end of text", len(source.text)))
    return tokens
