"""docs/engine.md is what its template and the recorded figures give, and its Python runs."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from tests.contracts.sources import ROOT

MAKER = ROOT / "docs" / "make_engine_page.py"


def load_maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_engine_page", MAKER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    maker = load_maker()
    assert maker.PAGE.read_text() == maker.page(), "run python docs/make_engine_page.py"
    assert "{{" not in maker.page()


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "engine.md.in").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", python_blocks())
def test_its_python_runs(block: str) -> None:
    exec(compile(block, "engine.md", "exec"), {"__name__": "engine_page"})


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md", "CHANGELOG.md"])
def test_the_number_of_comparisons_is_the_recorded_one(page: str) -> None:
    compared = load_maker().result("engine_vs_gpu")["compared"]
    assert str(sum(compared.values())) in (ROOT / page).read_text()
