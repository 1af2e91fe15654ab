"""Flags of what was written in a part of a storage, by units of one byte up to a whole element."""

from __future__ import annotations

import numpy as np
import pytest

from tilesight.engine.launch import Undefined

FLAGS = Undefined(np.array([True, False, True, True]), item_bytes=4, address=100)


@pytest.mark.parametrize(
    ("address", "size", "unit", "expected"),
    [
        (100, 16, 4, [1, 0, 1, 1]),
        (104, 8, 4, [0, 1]),
        (100, 8, 2, [1, 1, 0, 0]),
        (102, 4, 1, [1, 1, 0, 0]),
        (106, 6, 2, [0, 1, 1]),
        (108, 0, 1, []),
    ],
)
def test_units_of_a_part(address: int, size: int, unit: int, expected: list[int]) -> None:
    assert FLAGS.written_units(address, size, unit).tolist() == [bool(each) for each in expected]
