"""A scalar function on every lane, branches included."""

from __future__ import annotations

import pytest
import torch

from tilesight.engine import ExecutionOptions

from .. import kernels
from ..launching import run


@pytest.mark.parametrize("chunk", [1, 2, 50])
def test_branches_and_packs(chunk: int) -> None:
    x, y = torch.randint(-9, 9, (2, 3, 16), dtype=torch.int32)
    out, pairs = torch.zeros_like(x), torch.zeros_like(x)
    options = ExecutionOptions(chunk_programs=chunk)
    run(kernels.map_lanes, (3,), options=options, x=x, y=y, out=out, pairs=pairs, BLOCK=16)
    assert torch.equal(out, torch.where(x > y, x - y, y * 2))
    swapped = y.reshape(3, 8, 2).flip(2).reshape(3, 16)
    assert torch.equal(pairs, x + swapped)
