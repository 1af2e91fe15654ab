"""The HTML report: self-contained, well-formed, escaped, and holding what it must."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.report import samples
from tilesight.report.catalogue import Lang
from tilesight.report.html import backticks, fragment, page
from tilesight.report.view import view

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Balance(HTMLParser):
    """Fails on a tag that closes what it did not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        loads = ("src", "href", "xlink:href", "action", "data", "poster")
        self.loads += [value or "" for name, value in attrs if name in loads]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()


def parse(text: str) -> Balance:
    parser = Balance()
    parser.feed(text)
    parser.close()
    return parser


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", samples.RECORDS)
def test_every_report_is_well_formed_and_loads_nothing(name: str, lang: Lang) -> None:
    text = page(samples.RECORDS[name], lang)
    parsed = parse(text)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert [load for load in parsed.loads if not load.startswith("#")] == []
    assert not re.search(r"https?://|@import|<script|url\((?!#)", text)


def test_links_lead_to_lines_that_are_there() -> None:
    parsed = parse(page(samples.comparison()))
    targets = {load.removeprefix("#") for load in parsed.loads}
    assert len(targets) >= 12
    assert targets <= set(parsed.ids)


def test_both_kernels_and_the_three_parts() -> None:
    text = page(samples.comparison())
    for line in ("tl.store" in text, "fused_add_relu" in text, samples.GENERATED_NAME in text):
        assert line
    for part in ("program_id", "load", "store", "mask"):
        assert text.count(f'class="ts-line ts-part-{part}"') >= 2


def test_the_main_numbers_and_the_tail() -> None:
    text = page(samples.comparison())
    for number in ("2.0 MB", "1.2 MB", "1.67× ideal", "352 lanes masked off", "pid=97", "800 kB"):
        assert number in text
    assert 'data-tail="masked"' in text
    assert 'data-tail="out"' in page(samples.wrong_comparison())


def test_findings_stand_out_with_their_hint() -> None:
    text = page(samples.broken_trace())
    assert 'class="ts-finding"' in text
    assert "add mask=offsets &lt; n to the store" in text
    assert text.count("ts-faulty") > page(samples.trace()).count("ts-faulty")


def test_chinese_report_is_chinese() -> None:
    text = page(samples.comparison(), "zh")
    assert '<html lang="zh-CN">' in text
    for word in ("两条路并排看", "掩码", "往返", "融合组", "网格", "352 条 lane 被掩掉", "尚未测量"):
        assert word in text
    assert "not measured yet" not in text


def test_user_text_is_escaped() -> None:
    nasty = "<script>alert(1)</script>"
    record = replace(samples.observation(), subject=nasty, notes=(nasty,))
    assert "<script" not in page(record)
    hand = replace(samples.trace(), source=f"@triton.jit\ndef f():\n    '{nasty}'\n", kernel=nasty)
    assert "<script" not in page(hand)


def test_a_fragment_is_one_div_for_notebooks() -> None:
    text = fragment(samples.trace()).strip()
    assert text.startswith('<div class="tilesight">') and text.endswith("</div>")
    assert "<html" not in text and "<body" not in text
    assert parse(text).open == []


def test_every_rule_of_the_style_stays_inside_the_report() -> None:
    style = re.search(r"<style>(.*?)</style>", fragment(samples.trace()), re.S)
    assert style is not None
    selectors = re.findall(r"([^{}]+)\{", re.sub(r"@media[^{]*", "", style.group(1)))
    outside = [
        s for group in selectors for s in group.split(",") if not s.strip().startswith(".tilesight") and s.strip()
    ]
    assert outside == []


def test_light_and_dark() -> None:
    assert "prefers-color-scheme: dark" in page(samples.trace())


def test_sections_come_only_with_content() -> None:
    keys = re.findall(r'data-section="(\w+)"', page(samples.trace()))
    assert keys == ["findings", "tiles", "code", "ledger", "accesses"]
    keys = re.findall(r'data-section="(\w+)"', page(samples.attention()))
    assert keys == ["graph", "code", "ledger", "kernels", "not_fused", "breaks", "compile", "notes"]
    keys = re.findall(r'data-section="(\w+)"', page(samples.comparison()))
    assert keys == [*("findings", "numerics", "graph", "tiles", "code", "ledger", "accesses", "kernels", "compile")]


def test_a_kernel_without_source_has_no_listing() -> None:
    assert view(replace(samples.trace(), source="")).code is None
    assert 'data-section="code"' not in page(replace(samples.trace(), source=""))


def test_backticks_become_code() -> None:
    assert backticks("a `b<` c") == "a <code>b&lt;</code> c"


def test_the_report_package_imports_neither_torch_nor_triton() -> None:
    code = (
        "import sys, tilesight.report.html, tilesight.report.terminal, tilesight.report.view\n"
        "sys.exit(bool({'torch', 'triton'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
