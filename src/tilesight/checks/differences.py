"""How far what one run left in a tensor is from what another run left."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.launch import Memory
from tilesight.engine.values import BFLOAT16

FLOATS: dict[str, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": BFLOAT16,
}
MANTISSA_BITS = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
ROUNDINGS = 64
"""As many roundings of the largest number are no more than sums added up in another order."""


def differ(one: Memory, other: Memory) -> bool:
    """Whether two runs left other bits in a tensor."""
    return one.data.tobytes() != other.data.tobytes()


def difference_text(one: Memory, other: Memory) -> str:
    """How many elements differ, and for floats by how much at most."""
    left, right = _elements_of(one), _elements_of(other)
    bits = np.dtype(f"u{left.dtype.itemsize}")
    count = int(np.count_nonzero(left.view(bits) != right.view(bits)))
    text = f"{count} element{'s' * (count != 1)} differ{'s' * (count == 1)}"
    return f"{text} by up to {_worst(left, right):.3g}" if one.dtype in FLOATS else text


def is_rounding(one: Memory, other: Memory) -> bool:
    """Whether all that differs are floats, by no more than a sum does whose terms are added in another order."""
    if one.dtype not in FLOATS:
        return not differ(one, other)
    left, right = (each.astype(np.float64) for each in (_elements_of(one), _elements_of(other)))
    if not np.array_equal(np.isfinite(left), np.isfinite(right)):
        return False
    largest = float(np.max(np.abs(left), initial=0.0, where=np.isfinite(left)))
    return _worst(left, right) <= ROUNDINGS * largest * 2.0 ** -MANTISSA_BITS[one.dtype]


def _elements_of(memory: Memory) -> NDArray[Any]:
    dtype = FLOATS.get(memory.dtype, np.dtype(f"u{memory.item_bytes}"))
    return memory.data[: len(memory.data) // dtype.itemsize * dtype.itemsize].view(dtype)


def _worst(left: NDArray[Any], right: NDArray[Any]) -> float:
    with np.errstate(all="ignore"):
        distance = np.abs(left.astype(np.float64) - right.astype(np.float64))
    return float(np.max(distance, initial=0.0, where=~np.isnan(distance)))
