"""clamp of NaN: an H200 gives the limit with the sign of x where the limits are symmetric, the lower one elsewhere."""

from __future__ import annotations

import pytest
import torch

from .. import kernels
from ..launching import run


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nan_gives_way_to_a_limit(dtype: torch.dtype) -> None:
    x = torch.tensor([float("nan"), -5.0, 5.0, -0.0]).to(dtype)
    x[0] = torch.copysign(x[0], torch.ones((), dtype=dtype))
    symmetric, lopsided = torch.zeros_like(x), torch.zeros_like(x)
    run(kernels.clamp, (1,), x=x, symmetric=symmetric, lopsided=lopsided, BLOCK=4)
    assert symmetric.tolist() == [2.0, -2.0, 2.0, 0.0]
    assert lopsided.tolist() == [-2.0, -2.0, 3.0, 0.0]
    assert torch.signbit(symmetric).tolist() == [False, True, False, True]
