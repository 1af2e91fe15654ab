"""The course pages quote lines that are there, link to files that are there, and say the same twice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.lessons.commands import Command, Runner
from tests.lessons.pages import COURSE, LESSONS, PAGES, ROOT, as_quoted, blocks_of
from tilesight.capture.parts import find_parts

SCRIPTS = {
    "04": "04_torch_compile_observe.py",
    "04b": "04b_triton_vector_add.py",
    "04c": "04c_triton_fused_add_relu.py",
}
REFERENCE = re.compile(r"\[(04b?c?|gen):(\d+)\]\(([^)]+)\)(?: `([^`]+)`)?")
QUOTED_STAGES = ("sizePerThread = [4], threadsPerWarp = [32]", "ld.global.v4.b32", "@%p1", ".reqntid 128", "%tid.x")
MOST_PICTURE_BYTES = 200_000
PNG = b"\x89PNG\r\n\x1a\n"

every_language = pytest.mark.parametrize("lang", COURSE)


def references(lang: str) -> list[tuple[str, str, str, str]]:
    found: list[tuple[str, str, str, str]] = REFERENCE.findall(COURSE[lang].read_text(encoding="utf-8"))
    return found


@every_language
def test_quoted_lines_are_on_their_lines(lang: str) -> None:
    quoted = [each for each in references(lang) if each[0] != "gen"]
    assert len(quoted) >= 30
    for script, number, link, code in quoted:
        assert link == f"{SCRIPTS[script]}#L{number}"
        line = (LESSONS / SCRIPTS[script]).read_text(encoding="utf-8").splitlines()[int(number) - 1]
        assert line.split("  #")[0].strip() == code if code else line.strip(), f"{script}:{number}"


@every_language
def test_quoted_lines_of_the_generated_kernel_are_on_their_lines(lang: str, runner: Runner) -> None:
    printed = runner.result(Command("python 04_torch_compile_observe.py", "lessons", lang)).output
    numbered = dict(re.findall(r"^ +(\d\d)  +(.*?)(?: +<- .*)?$", as_quoted(printed), re.MULTILINE))
    quoted = [each for each in references(lang) if each[0] == "gen"]
    assert len(quoted) >= 10
    for _, number, link, code in quoted:
        assert link == "#generated"
        assert code in ("", numbered[number]), f"gen:{number}"


def test_both_languages_quote_the_same_lines() -> None:
    assert Counter(references("en")) == Counter(references("zh"))


def test_both_languages_have_the_same_shape() -> None:
    en, zh = (COURSE[lang].read_text(encoding="utf-8") for lang in ("en", "zh"))
    for shape in (r"^#+ ", r"!\[", r"^\|", r"<a id=\"[\w-]+\">", r"^\d\. ", r"^```sh"):
        assert len(re.findall(shape, en, re.MULTILINE)) == len(re.findall(shape, zh, re.MULTILINE)), shape
    assert [b.text for b in blocks_of(COURSE["en"]) if b.language == "sh"] == [
        b.text for b in blocks_of(COURSE["zh"]) if b.language == "sh"
    ]


def test_the_tools_parts_are_the_courses() -> None:
    """The lines that sections 1 and 2 name are those that the tool marks in 04c."""
    source = (LESSONS / SCRIPTS["04c"]).read_text(encoding="utf-8")
    parts = find_parts(source, "add_relu_kernel")
    assert (parts.program_id, parts.mask, parts.load, parts.store) == ((20, 21), (22,), (23, 24), (28,))


@every_language
def test_quotes_of_the_stages_are_printed(lang: str, runner: Runner) -> None:
    printed = runner.result(Command("python jit_stages.py", "lessons", lang)).output
    page = COURSE[lang].read_text(encoding="utf-8")
    for quoted in QUOTED_STAGES:
        assert f"`{quoted}`" in page
        assert quoted in printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    own = {slug(line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)} | set(
        re.findall(r'<a id="([^"]+)"', text)
    )
    links = [
        link for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "", text)) if not link.startswith("http")
    ]
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor.startswith("L"):
            assert int(anchor[1:]) <= len(target.read_text(encoding="utf-8").splitlines()), link
        elif anchor:
            assert not path, f"{link}: only anchors of the page itself are checked"
            assert anchor in own, link


def slug(heading: str) -> str:
    """The anchor that Markdown viewers give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("picture", sorted(ROOT.glob("*/pictures/*")), ids=lambda path: str(path.relative_to(ROOT)))
def test_picture_is_small_and_shown(picture: Path) -> None:
    data = picture.read_bytes()
    assert data.startswith(PNG)
    assert len(data) <= MOST_PICTURE_BYTES
    link = f"({picture.relative_to(ROOT)})" if picture.parts[-3] == "docs" else f"(pictures/{picture.name})"
    assert any(link in page.read_text(encoding="utf-8") for page in PAGES), f"{picture.name} is on no page"
