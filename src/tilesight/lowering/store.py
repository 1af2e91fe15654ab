"""Compiled kernels on disk, in Triton's cache: one JSON file for each.

Triton's cache manager, seen on 3.6, 3.7.1 and 3.8.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false
from __future__ import annotations

import base64
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from triton.runtime.cache import get_cache_manager

from tilesight.lowering.model import Allocation, Assembly, Compiled
from tilesight.targets import Target

FILE = "tilesight-lowering-1.json"


def load_compiled(key: str, kernel: str, target: Target) -> Compiled | None:
    """What was stored under a key; None where nothing was, or it can't be read."""
    path = get_cache_manager(key).get_file(FILE)
    if path is None:
        return None
    try:
        stored: dict[str, Any] = json.loads(Path(path).read_text())
        return Compiled(
            kernel=kernel,
            target=target,
            stages=stored["stages"],
            allocation=Allocation(**stored["allocation"]) if stored["allocation"] else None,
            cubin=base64.b64decode(stored["cubin"]),
            assembly=Assembly(**stored["assembly"]) if stored["assembly"] else None,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_compiled(key: str, compiled: Compiled) -> None:
    """Keep what compiled, for other processes."""
    stored = {
        "stages": dict(compiled.stages),
        "allocation": asdict(compiled.allocation) if compiled.allocation else None,
        "cubin": base64.b64encode(compiled.cubin).decode(),
        "assembly": asdict(compiled.assembly) if compiled.assembly else None,
    }
    get_cache_manager(key).put(json.dumps(stored), FILE, binary=False)
