"""The pages of figures are what their templates and the recorded figures give, and their Python runs."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import pytest

from tests.contracts.sources import ROOT

MAKER = ROOT / "docs" / "make_figure_pages.py"


def load_maker() -> ModuleType:
    if str(MAKER.parent) not in sys.path:
        sys.path.append(str(MAKER.parent))
    spec = importlib.util.spec_from_file_location("make_figure_pages", MAKER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", load_maker().PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    maker = load_maker()
    assert (ROOT / "docs" / f"{name}.md").read_text() == maker.page(name), "run python docs/make_figure_pages.py"
    assert "{{" not in maker.page(name)


@pytest.mark.parametrize("name", load_maker().READMES)
def test_the_readmes_headline_is_up_to_date(name: str) -> None:
    maker = load_maker()
    text = (ROOT / name).read_text()
    assert all(text.count(mark) == 1 for mark in maker.MARKS)
    assert text == maker.readme(name), "run python docs/make_figure_pages.py"


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "engine.md.in").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", python_blocks())
def test_its_python_runs(block: str) -> None:
    exec(compile(block, "engine.md", "exec"), {"__name__": "engine_page"})


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md", "CHANGELOG.md"])
def test_the_number_of_comparisons_is_the_recorded_one(page: str) -> None:
    compared = load_maker().result("engine_vs_gpu")["compared"]
    assert str(sum(compared.values())) in (ROOT / page).read_text()
