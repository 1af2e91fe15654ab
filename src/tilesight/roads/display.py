"""Results show themselves: on a terminal, in a notebook, as data.

The only place where a road looks up at the report: by name, when somebody asks to see a result.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Displayed:
    """A record that prints as a report, shows as HTML in a notebook, and turns into a dict."""

    def to_dict(self) -> dict[str, Any]:
        """The record with the keys of the command's `--json`."""
        return import_module("tilesight.report.serialize").to_dict(self)

    def __str__(self) -> str:
        return import_module("tilesight.report.terminal").report_text(self)

    def _repr_html_(self) -> str:
        return import_module("tilesight.report.html").fragment(self)
