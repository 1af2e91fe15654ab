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
