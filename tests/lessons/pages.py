"""Reads the Markdown pages: their fenced blocks, and which output is printed under which command."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ROOT / "lessons"
COURSE = {"en": LESSONS / "README.md", "zh": LESSONS / "README.zh-CN.md"}
README = {"en": ROOT / "README.md", "zh": ROOT / "README.zh-CN.md"}
GUIDE = ROOT / "docs" / "guide.md"
PAGES = (*COURSE.values(), *README.values(), GUIDE)

_FENCE = re.compile(r"^(\s*)```(\S*)\s*$")
_SPELLINGS = {"tl.maximum(tmp3, tmp2, tl.PropagateNan.ALL)": "triton_helpers.maximum(tmp3, tmp2)"}
"""What torch 2.14 writes, and what 2.11 to 2.13 and the pages do."""
_TIME = re.compile(r"\d[\d.,]* ?(?:ms|µs|s)\b")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language (`sh`, `text`, `python`, or empty), its text, its first line's number."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Transcript:
    """A `sh` block and the `text` blocks up to the next one: parts of what it prints."""

    page: Path
    command: Block
    outputs: tuple[Block, ...]

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.command.line}"


def lang_of(page: Path) -> str:
    """The page's language, by its name."""
    return "zh" if ".zh-CN." in page.name else "en"


def blocks_of(path: Path) -> list[Block]:
    """The page's fenced blocks, in order, without the indentation of their fence."""
    found: list[Block] = []
    opened: tuple[str, str, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None and fence:
            opened, lines = (fence[1], fence[2], number + 1), []
        elif opened is not None and fence:
            found.append(Block(opened[1], "\n".join(lines), opened[2]))
            opened = None
        elif opened is not None:
            lines.append(line.removeprefix(opened[0]))
    assert opened is None, f"{path}: a fence is not closed"
    return found


def transcripts_of(path: Path) -> list[Transcript]:
    """Each `sh` block of the page with the outputs quoted under it."""
    found: list[tuple[Block, list[Block]]] = []
    for block in blocks_of(path):
        if block.language == "sh":
            found.append((block, []))
        elif block.language == "text":
            assert found, f"{path}:{block.line}: output without a command above it"
            found[-1][1].append(block)
    return [Transcript(path, command, tuple(outputs)) for command, outputs in found]


def plain_lines(text: str) -> list[str]:
    """The text's lines with single blanks, and with times, which vary, as `TIME`."""
    return [_TIME.sub("TIME", " ".join(line.split())) for line in as_quoted(text).splitlines()]


def as_quoted(text: str) -> str:
    """Generated code in the spelling that the pages quote."""
    for written, quoted in _SPELLINGS.items():
        text = text.replace(written, quoted)
    return text


def missing_lines(quoted: str, printed: str) -> list[str]:
    """Lines of `quoted` that do not follow one another in `printed`; `…` stands for any lines between."""
    rest = iter(plain_lines(printed))
    return [line for line in plain_lines(quoted) if line not in ("", "…") and line not in rest]
