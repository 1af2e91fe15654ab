"""Every seeded fault, kind by kind."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.corpus.model import Seeded
from tilesight.checks.kinds import KINDS


def _seeded_faults() -> tuple[Seeded, ...]:
    here = Path(__file__).parent
    names = [kind.replace("-", "_") for kind in KINDS]
    modules = [importlib.import_module(f"tests.corpus.{name}") for name in names if (here / f"{name}.py").exists()]
    return tuple(seeded for module in modules for seeded in module.CASES)


ALL: tuple[Seeded, ...] = _seeded_faults()
