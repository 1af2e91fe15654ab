"""Tilesight: the two ways to a GPU kernel, side by side.

`observe` shows what torch.compile makes of a function, `trace` what a hand-written Triton launch does,
`compare` both for one `Case`, `check` everything that is wrong with a launch or a case. `enable` lets
Triton run kernels on CPU tensors. None needs a GPU.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilesight.capture.case import Case
    from tilesight.capture.enable import OutOfBoundsWarning, disable, enable
    from tilesight.errors import TilesightError
    from tilesight.roads.check import check
    from tilesight.roads.compare import compare
    from tilesight.roads.observe import observe
    from tilesight.roads.traces import trace

__all__ = ["Case", "OutOfBoundsWarning", "TilesightError", "check", "compare", "disable", "enable", "observe", "trace"]
__version__ = "0.1.0"

_HOMES = {
    "Case": "tilesight.capture.case",
    "OutOfBoundsWarning": "tilesight.capture.enable",
    "TilesightError": "tilesight.errors",
    "check": "tilesight.roads.check",
    "compare": "tilesight.roads.compare",
    "disable": "tilesight.capture.enable",
    "enable": "tilesight.capture.enable",
    "observe": "tilesight.roads.observe",
    "trace": "tilesight.roads.traces",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import tilesight` alone does not import torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tilesight' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
