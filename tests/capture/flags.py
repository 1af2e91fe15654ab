"""Which elements of a storage were written, as text."""

from __future__ import annotations

import torch

from tilesight.capture.undefined import written_of


def flags(tensor: torch.Tensor) -> str:
    """One character an element of the storage: x written, . not; "" where all was or nothing is known."""
    found = written_of(tensor)
    return "" if found is None else "".join("x" if each else "." for each in found.written)
