"""Roads without torch: modules put in the place of the real ones, which record how they were called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

ROADS = {
    "observe": ("tilesight.roads.observe", "observe_spec"),
    "trace": ("tilesight.roads.trace", "trace_spec"),
    "run": ("tilesight.roads.run", "run_script"),
    "check": ("tilesight.roads.check", "check_spec"),
    "compare": ("tilesight.roads.compare", "compare_spec"),
}

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


def stand_in(monkeypatch: pytest.MonkeyPatch, command: str, road: Callable[[], Any]) -> Calls:
    """Let `command`'s road return what `road()` returns or raise what it raises; the calls it gets."""
    calls: Calls = []

    def called(*args: Any, **options: Any) -> Any:
        calls.append((args, options))
        return road()

    module_name, function = ROADS[command]
    module = ModuleType(module_name)
    setattr(module, function, called)
    monkeypatch.setitem(sys.modules, module_name, module)
    return calls
