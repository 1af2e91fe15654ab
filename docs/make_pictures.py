"""Make the pictures of the READMEs and the lessons from the tool's own HTML reports.

    python docs/make_pictures.py

Needs playwright and a Chromium (the `browser` extra); CHROMIUM names another one. A picture is a part of a
report's page: the sections named in PICTURES, from the top of the first to the bottom of the last.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
CHROMIUM_OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PAGE_WIDTH = 1180
MARGIN = 12
BELOW_RULE = 2  # a section begins with a line that the picture leaves out
MOST_BYTES = 200_000
CASES = {
    "add": "lessons/04b_triton_vector_add.py:CASE",
    "add_relu": "lessons/04c_triton_fused_add_relu.py:CASE",
}


@dataclass(frozen=True)
class Picture:
    """One picture: of which case's report, from which element to which."""

    name: str
    case: str
    first: str
    last: str


TILES, CODE, LEDGER, GRAPH = (f'[data-section="{name}"]' for name in ("tiles", "code", "ledger", "graph"))
PICTURES = (
    Picture("docs/pictures/report", "add_relu", TILES, f"{CODE} .ts-sides"),
    Picture("lessons/pictures/tiles", "add", TILES, TILES),
    Picture("lessons/pictures/kernels", "add_relu", CODE, f"{CODE} .ts-sides"),
    Picture("lessons/pictures/graph", "add_relu", GRAPH, GRAPH),
    Picture("lessons/pictures/ledger", "add_relu", LEDGER, LEDGER),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        page = browser.new_page(viewport={"width": PAGE_WIDTH, "height": 900})
        for lang, suffix in (("en", ""), ("zh", ".zh-CN")):
            for case, spec in CASES.items():
                page.goto(write_report(spec, lang, Path(folder) / f"{case}.{lang}.html").as_uri())
                for picture in PICTURES:
                    if picture.case == case:
                        shoot(page, picture, ROOT / f"{picture.name}{suffix}.png")
        browser.close()


def write_report(spec: str, lang: str, path: Path) -> Path:
    """Run `tilesight compare` and give back the path of its HTML file."""
    command = ["-c", "from tilesight.cli import main; main()", "compare", spec, "--lang", lang, "--html", str(path)]
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return path


def shoot(page: Page, picture: Picture, path: Path) -> None:
    """Write the part of the page that the picture names."""
    first, last = page.locator(picture.first).first.bounding_box(), page.locator(picture.last).first.bounding_box()
    if first is None or last is None:
        raise SystemExit(f"{picture.name}: the report has no {picture.first} or no {picture.last}")
    top, bottom = first["y"] + BELOW_RULE, last["y"] + last["height"] + MARGIN
    path.parent.mkdir(parents=True, exist_ok=True)
    clip = {"x": 0, "y": top, "width": PAGE_WIDTH, "height": bottom - top}
    page.screenshot(path=path, clip=clip, full_page=True)  # pyright: ignore[reportArgumentType]
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{path.relative_to(ROOT)} has {size:,} bytes; expected at most {MOST_BYTES:,}")
    print(f"{path.relative_to(ROOT)}  {size:,} bytes")


if __name__ == "__main__":
    main()
