"""Both languages have the same words with the same placeholders."""

from __future__ import annotations

from string import Formatter

import pytest

from tilesight.report.catalogue import Catalogue, default_lang
from tilesight.report.catalogue_en import ENGLISH
from tilesight.report.catalogue_zh import CHINESE


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_the_languages_have_the_same_keys_in_the_same_order() -> None:
    assert list(ENGLISH) == list(CHINESE)


@pytest.mark.parametrize("key", ENGLISH)
def test_the_placeholders_agree(key: str) -> None:
    assert placeholders(ENGLISH[key]) == placeholders(CHINESE[key])


def test_chinese_uses_the_fields_words() -> None:
    words = Catalogue("zh")
    assert words("card_programs") == "程序（program）数"
    assert words("trips") == "HBM 往返"
    assert words("part_mask") == "掩码（mask）"
    assert words("grid") == "网格"


def test_an_unknown_name_stands_for_itself() -> None:
    assert Catalogue("en").known("liger", "liger") == "liger"


@pytest.mark.parametrize(
    ("variable", "value", "lang"),
    [("LC_ALL", "zh_CN.UTF-8", "zh"), ("LANG", "zh_TW", "zh"), ("LANG", "en_GB.UTF-8", "en"), ("LANG", "C", "en")],
)
def test_the_language_comes_from_the_locale(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, lang: str
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    assert default_lang() == lang
