"""Shapes: joins, splits, reshapes, gathers and histograms."""

from __future__ import annotations

import pytest
import torch

from tilesight.engine import ExecutionOptions

from .. import kernels
from ..launching import run

CHUNKS = [1, 2, 50]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_way_to_move_lanes(chunk: int) -> None:
    x = torch.randint(0, 50, (3, 8)).float()
    out = torch.zeros_like(x)
    run(kernels.shapes, (3,), options=ExecutionOptions(chunk_programs=chunk), x=x, out=out, BLOCK=8)
    even, odd = x[:, 0::2], x[:, 1::2]
    flat = torch.stack([odd, even], -1).permute(0, 2, 1).reshape(3, 8)
    column = (even + odd).repeat_interleave(2, 1)
    assert torch.equal(out, flat + 100 * x + 10000 * column)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_gather_and_histogram(chunk: int) -> None:
    x, index = torch.randn(4, 16), torch.randint(0, 8, (4, 16), dtype=torch.int32)
    out, counts = torch.zeros_like(x), torch.zeros(4, 8, dtype=torch.int32)
    options = ExecutionOptions(chunk_programs=chunk)
    tensors = {"x": x, "index": index, "out": out, "counts": counts}
    run(kernels.gather_and_count, (4,), (), options, **tensors, BLOCK=16, BINS=8)  # pyright: ignore[reportArgumentType]
    assert torch.equal(out, x.gather(1, index.long()))
    assert torch.equal(counts.long(), torch.stack([torch.bincount(row.long(), minlength=8) for row in index]))
