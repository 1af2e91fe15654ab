"""The project's text names no machine it was written on, no package host and no way of working."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.sources import ROOT

FORBIDDEN = re.compile(
    r"""
      (?<![\w.])/(?:work|root|tmp/ts)/                      # paths of one machine
    | \bpypi\.org | pythonhosted\.org | npmjs\.(?:org|com) | deb(?:ian)?\.debian\.org
    | download\.pytorch\.org | \banaconda\.(?:org|com) | \bproxy\.golang\.org
    | --(?:extra-)?index-url | --find-links
    | \bissue\s\#\d+ | \b(?:sub-?)?agents?\b | \bCEO\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
FOLDERS = ("src", "tests", "lessons", "benchmarks", "docs", ".ci")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".lock", ".txt", ".json", ".html", ".jinja", ".css", ".js", ".ttir", ".yml", ""}


def text_files() -> Iterator[Path]:
    for path in sorted([*ROOT.iterdir(), *(each for name in FOLDERS for each in (ROOT / name).rglob("*"))]):
        is_ours = path.is_file() and path.suffix in TEXT_SUFFIXES and "__pycache__" not in path.parts
        if is_ours and path != Path(__file__).resolve() and path.name not in {"LICENSE", ".git"}:
            yield path


def forbidden_lines(text: str) -> list[str]:
    return [
        f"line {number}: {match.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        if (match := FORBIDDEN.search(line))
    ]


@pytest.mark.parametrize("path", list(text_files()), ids=lambda path: str(path.relative_to(ROOT)))
def test_text_names_nothing_forbidden(path: Path) -> None:
    assert forbidden_lines(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/main/x.py",
        "open('/root/.cache/a')",
        "pip install --index-url x",
        "https://" + "pypi.org/p",
        "issue #12",
    ],
)
def test_a_forbidden_word_is_seen(text: str) -> None:
    assert len(forbidden_lines(text)) == 1


@pytest.mark.parametrize("text", ["https://example.com/work/a", "pytorch#142388", "an agency", "/tmp/x", "work/root"])
def test_other_words_are_let_through(text: str) -> None:
    assert forbidden_lines(text) == []
