"""The report in a real browser. Needs Chromium and playwright; without them every test here skips with one reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.report import samples
from tests.report.browser import ARGUMENTS, CHROMIUM
from tilesight.report.catalogue import Lang
from tilesight.report.html import write_html
from tilesight.report.serialize import Record
from tilesight.roads.model import Observation

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDE, NARROW = 1400, 700
BACKGROUND = "element => getComputedStyle(element).backgroundColor"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium found: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


class Opened:
    """A report in a page, with what the page complained of and asked for."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())

    def box(self, selector: str) -> dict[str, float]:
        box: Any = self.page.locator(selector).first.bounding_box()
        assert box is not None, selector
        return box

    def backgrounds(self, selector: str) -> set[str]:
        found: Any = self.page.locator(selector)
        return {found.nth(number).evaluate(BACKGROUND) for number in range(found.count())}


def opened(
    browser: Browser,
    folder: Path,
    record: str = "comparison",
    lang: Lang = "en",
    width: int = WIDE,
    scheme: Any = "light",
) -> Opened:
    path = write_html(samples.RECORDS[record], folder / f"{record}.html", lang)
    return Opened(browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme), path)


@pytest.mark.parametrize("record", samples.RECORDS)
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_quiet_offline_and_never_wider_than_the_window(
    browser: Browser, tmp_path: Path, record: str, width: int
) -> None:
    report = opened(browser, tmp_path, record, "zh", width)
    assert report.complaints == []
    assert report.requests == [(tmp_path / f"{record}.html").as_uri()]
    assert report.page.evaluate("document.documentElement.scrollWidth") == width


def test_kernels_stand_side_by_side_where_there_is_room(browser: Browser, tmp_path: Path) -> None:
    report = opened(browser, tmp_path)
    hand, generated = report.box("[data-road=hand]"), report.box("[data-road=generated]")
    assert hand["y"] == generated["y"]
    assert hand["x"] + hand["width"] <= generated["x"]
    assert min(hand["width"], generated["width"]) > 500


def test_kernels_stack_on_a_narrow_screen(browser: Browser, tmp_path: Path) -> None:
    report = opened(browser, tmp_path, width=NARROW)
    hand, generated = report.box("[data-road=hand]"), report.box("[data-road=generated]")
    assert hand["x"] == generated["x"]
    assert hand["y"] + hand["height"] <= generated["y"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_part_has_one_background_everywhere_and_no_other_parts(browser: Browser, tmp_path: Path, scheme: str) -> None:
    report = opened(browser, tmp_path, scheme=scheme)
    colours = {
        part: report.backgrounds(f".ts-source .ts-part-{part}, .ts-pairs .ts-part-{part}")
        for part in ("program_id", "load", "store", "mask")
    }
    assert all(len(colour) == 1 for colour in colours.values())
    assert colours["load"] == colours["store"]
    assert len(set.union(*colours.values())) == 3
    for road in ("hand", "generated"):
        assert report.backgrounds(f"[data-road={road}] .ts-part-mask") == colours["mask"]
    assert report.backgrounds(".ts-legend .ts-part-mask") == colours["mask"]


def test_the_tail_is_orange_and_as_wide_as_its_lanes(browser: Browser, tmp_path: Path) -> None:
    report = opened(browser, tmp_path)
    tail, zoomed = report.box("[data-tail=masked]"), report.box(".ts-tiles .ts-zoom")
    assert tail["width"] / zoomed["width"] == pytest.approx(352 / 1024, abs=0.005)
    fill = "element => getComputedStyle(element).fill"
    assert report.page.locator("[data-tail=masked]").evaluate(fill) == "rgb(245, 167, 66)"


def test_the_dark_report_is_dark(browser: Browser, tmp_path: Path) -> None:
    light, dark = opened(browser, tmp_path), opened(browser, tmp_path, scheme="dark")
    assert light.backgrounds(".tilesight") != dark.backgrounds(".tilesight")
    assert light.backgrounds("body") != dark.backgrounds("body")


OVERFLOWING = """() => [...document.querySelectorAll('.ts-box')].flatMap(box => {
    const room = box.querySelector('rect').getBoundingClientRect();
    return [...box.querySelectorAll('text')].filter(text => {
        const size = text.getBoundingClientRect();
        return size.right > room.right + 1 || size.left < room.left - 1 || size.bottom > room.bottom + 1;
    }).map(text => text.textContent);
})"""


def long_names() -> Observation:
    """An observation whose every name is longer than its box."""
    seen, name = samples.attention(), "a_very_long_name_of_something_融合" * 3
    ops = tuple(replace(op, target=f"aten.{name}", code=name, source=f"{name}.py:1") for op in seen.graph.ops)
    kernels = tuple(replace(kernel, name=name, kind=name, source_lines=(name,)) for kernel in seen.kernels)
    graph = replace(seen.graph, ops=ops, fx=ops, inputs=ops[:3], outputs=(name,))
    return replace(seen, graph=graph, kernels=kernels)


@pytest.mark.parametrize(
    "record", [samples.comparison(), samples.attention(), long_names()], ids=["two ops", "attention", "long names"]
)
def test_no_text_of_the_graph_leaves_its_box(browser: Browser, tmp_path: Path, record: Record) -> None:
    path = write_html(record, tmp_path / "report.html", "zh")
    report = Opened(browser.new_page(viewport={"width": WIDE, "height": 900}), path)
    assert report.page.locator(".ts-box").count() > 5
    assert report.page.evaluate(OVERFLOWING) == []


def test_a_pair_leads_to_its_line(browser: Browser, tmp_path: Path) -> None:
    report = opened(browser, tmp_path)
    report.page.locator(".ts-pairs a").first.click()
    assert "pid = tl.program_id(0)" in report.page.locator(".ts-line:target").inner_text()
