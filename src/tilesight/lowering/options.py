"""The options with which a launch was compiled, as far as its author chose them.

Seen on Triton 3.6, 3.7.1 and 3.8.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from triton.compiler import make_backend

DECIDED_BY_THE_TARGET = {
    "arch", "backend_name", "deprecated_fp8_dot_operand_dtypes", "ptx_version", "supported_fp8_dtypes", "warp_size"
}  # fmt: skip


def chosen_options(metadata: Any) -> dict[str, Any]:
    """Options such as num_warps that differ from what Triton takes when nothing is said.

    Args:
        metadata: of the kernel that the engine ran, a named tuple or a dict
    """
    told: dict[str, Any] = metadata if isinstance(metadata, dict) else metadata._asdict()
    backend: Any = make_backend(told["target"])
    usual = asdict(backend.parse_options({}))
    names = usual.keys() & told.keys() - DECIDED_BY_THE_TARGET
    chosen = {name: told[name] for name in sorted(names) if _plain(told[name]) != _plain(usual[name])}
    if "extern_libs" in chosen:
        libraries = _libraries_chosen(dict(chosen.pop("extern_libs")), dict(usual["extern_libs"]))
        chosen.update({"extern_libs": libraries} if libraries else {})
    return chosen


def _libraries_chosen(told: dict[str, str], usual: dict[str, str]) -> dict[str, str]:
    """The libraries that are not the usual ones.

    Triton's cache is shared by all its installs of a user and keyed by what a library holds, so an entry may name the
    same library in another install, even in one that is gone.
    """
    return {name: path for name, path in told.items() if name not in usual or not _same_library(path, usual[name])}


def _same_library(path: str, usual: str) -> bool:
    told, here = Path(path), Path(usual)
    if told == here:
        return True
    if not told.is_file():
        return told.parts[-4:] == here.parts[-4:]
    return told.read_bytes() == here.read_bytes()


def _plain(value: Any) -> Any:
    """Tuples for the lists that a round trip through JSON makes of them."""
    return tuple(_plain(item) for item in cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else value
