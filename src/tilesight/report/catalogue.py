"""The reports' own words in English and Chinese; texts of torch, Triton and the checks stay as they are."""

from __future__ import annotations

import locale
import os
from typing import Literal

from tilesight.report.catalogue_en import ENGLISH
from tilesight.report.catalogue_zh import CHINESE

Lang = Literal["en", "zh"]

_CATALOGUES: dict[Lang, dict[str, str]] = {"en": ENGLISH, "zh": CHINESE}


class Catalogue:
    """The words of one language; call it with a key and the values of its placeholders."""

    def __init__(self, lang: Lang) -> None:
        self.lang: Lang = lang
        self._texts = _CATALOGUES[lang]

    def __call__(self, key: str, **values: object) -> str:
        return self._texts[key].format(**values)

    def known(self, key: str, default: str) -> str:
        """The word for `key`, or `default` where the catalogue has none, as for a peer's name."""
        return self._texts.get(key, default)


def default_lang() -> Lang:
    """`zh` where the user's locale is Chinese, else `en`."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if os.environ.get(name):
            return "zh" if os.environ[name].lower().startswith("zh") else "en"
    return "zh" if (locale.getlocale()[0] or "").lower().startswith(("zh", "chinese")) else "en"
