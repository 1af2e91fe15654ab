"""Tensor descriptors: tiles, padding and dropped stores at the edges."""

from __future__ import annotations

import pytest
import torch

from tilesight.checks.bounds import BoundsCheck
from tilesight.engine import ExecutionOptions

from .. import kernels
from ..launching import run


@pytest.mark.parametrize("chunk", [1, 3, 50])
def test_copy_and_add(chunk: int) -> None:
    x, out = torch.randn(20, 40), torch.zeros(20, 40)
    listener = BoundsCheck()
    options = ExecutionOptions(chunk_programs=chunk)
    run(kernels.copy_by_descriptor, (2, 3), (listener,), options, x=x, out=out, M=20, N=40, BLOCK_M=16, BLOCK_N=16)
    assert torch.equal(out, x * 2 + x)
    assert listener.findings() == []


def test_gather_and_scatter_rows() -> None:
    """Rows by index from a first column on; columns past the edge read 0 and are dropped when written."""
    x, out = torch.randn(10, 20), torch.full((10, 20), 7.0)
    rows = torch.tensor([3, 9, 0, 5, 1, 2, 7, 4], dtype=torch.int32)
    run(kernels.move_rows, (1,), x=x, rows=rows, out=out, M=10, N=20, first=8, COUNT=8, BLOCK=16)
    expected = torch.full((10, 20), 7.0)
    expected[rows.long(), :12] = x[rows.long(), 8:]
    expected[rows.long(), 12:16] = 0
    assert torch.equal(out, expected)
