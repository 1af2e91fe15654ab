"""The chain in the report: names in columns, and a click that lights up what belongs together.

The clicks need Chromium and playwright; without them those tests skip with one reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.report import samples
from tests.report.browser import ARGUMENTS, CHROMIUM
from tilesight.report.html import page, write_html
from tilesight.report.view import view
from tilesight.roads.model import Link, Observation

NODES = {
    "line:a.py:1": ("line", ()),
    "line:a.py:2": ("line", ()),
    "fx:h": ("fx", ("line:a.py:1",)),
    "fx:y": ("fx", ("line:a.py:2",)),
    "aten:add": ("aten", ("fx:h",)),
    "aten:relu": ("aten", ("fx:y",)),
    "buffer:buf0": ("buffer", ("aten:add", "aten:relu")),
    "group:op0": ("group", ("buffer:buf0",)),
    "kernel:0": ("kernel", ("group:op0",)),
    "source:0.22": ("source", ("kernel:0", "aten:add")),
    "source:0.23": ("source", ("kernel:0", "aten:relu")),
    "source:0.24": ("source", ("kernel:0", "aten:relu", "buffer:buf0")),
}
WHOLE = set(NODES)
FIRST = {"line:a.py:1", "fx:h", "aten:add", "buffer:buf0", "group:op0", "kernel:0", "source:0.22"}


def linked() -> Observation:
    links = tuple(
        Link(id_, kind, id_.split(":", 1)[1], "" if kind == "line" else "inference", before,
             tuple(other for other, (_, others) in NODES.items() if id_ in others))
        for id_, (kind, before) in NODES.items()
    )  # fmt: skip
    return replace(samples.observation(), links=links)


def test_columns_stand_in_the_order_of_the_chain() -> None:
    chain = view(linked(), "en").chain
    assert chain is not None
    assert [len(column.items) for column in chain.columns] == [2, 2, 2, 1, 1, 1]
    assert chain.beside["buffer:buf0"] == ("buffer", ("aten:add", "aten:relu"), ("group:op0", "source:0.24"))


def test_lines_of_source_carry_their_ids_and_the_page_stays_whole() -> None:
    text = page(linked())
    assert re.findall(r'data-link="(source:[^"]+)"', text) == ["source:0.22", "source:0.23", "source:0.24"]
    assert "<script src" not in text and not re.search(r"https?://", text)


def test_without_a_chain_there_is_no_script() -> None:
    assert view(samples.observation(), "en").chain is None
    assert "<script" not in page(samples.observation())


def test_names_from_the_users_file_cannot_end_the_script() -> None:
    nasty = Link("line:</script><b>:1", "line", "</script><b>:1", "", (), ())
    assert "</script><b>" not in page(replace(samples.observation(), links=(nasty,)))


@pytest.fixture(scope="module")
def lit_by(tmp_path_factory: pytest.TempPathFactory) -> Any:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium found: apt-get install chromium")
    path = write_html(linked(), tmp_path_factory.mktemp("chain") / "report.html")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        shown = browser.new_page()
        complaints: list[str] = []
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.goto(path.as_uri())

        def lit(selector: str) -> set[str]:
            if selector:
                shown.locator(selector).first.click()
            assert complaints == []
            found: Any = shown.locator(".ts-lit").evaluate_all("all => all.map(e => e.dataset.link)")
            return {each for text in found for each in text.split()}

        yield lit
        browser.close()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ('.ts-chip[data-link="line:a.py:1"]', FIRST),
        ('.ts-chip[data-link="aten:add"]', FIRST),
        ('.ts-line[data-link="source:0.22"]', {"source:0.22", "aten:add", "fx:h", "line:a.py:1", "kernel:0"}),
        ('.ts-chip[data-link="kernel:0"]', WHOLE),
        ('.ts-chip[data-link="buffer:buf0"]', WHOLE - {"source:0.22", "source:0.23"}),
    ],
)  # fmt: skip
def test_a_click_lights_up_what_belongs_to_it(
    lit_by: Callable[[str], set[str]], chosen: str, expected: set[str]
) -> None:
    assert lit_by(chosen) == expected


def test_a_click_beside_it_puts_the_lights_out(lit_by: Callable[[str], set[str]]) -> None:
    assert lit_by('.ts-chip[data-link="aten:add"]') and not lit_by(".ts-cards")
