"""Where a launcher copies a tensor: the line of `x.contiguous()`, `reshape`, `clone` or `to`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

LIBRARIES = tuple(str(folder) for folder in (Path(str(torch.__file__)).parent, Path(__file__).parents[1]))


@dataclass(frozen=True)
class CopyPlace:
    """A copy of a tensor.

    Args:
        source, copy: addresses of the two storages
        file, line: of the call, outside torch
    """

    source: int
    copy: int
    file: str
    line: int


def place_of_copy(source: Any, copy: Any) -> CopyPlace | None:
    """Where a copy that is just being made is asked for; None for one that nobody's code asks for.

    Args: source, copy: plain tensors with memory of their own each
    """
    frame = _asking_frame()
    if frame is None:
        return None
    first, second = (each.untyped_storage().data_ptr() for each in (source, copy))
    return CopyPlace(first, second, frame.f_code.co_filename, frame.f_lineno)


def _asking_frame() -> FrameType | None:
    """The innermost frame outside torch and Tilesight."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame = frame.f_back
    return frame
