"""Attention of the hand-written library, on the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.kernels_library.against_float64 import (
    assert_no_finding,
    draw,
)
from tilesight import Case
from tilesight.capture.numerics import judge
from tilesight.kernels import attention
from tilesight.kernels.attention import launch_plan, outputs
from tilesight.kernels.attention_plan import AttentionPlan

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def torch_attention(*args: Any, **arguments: Any) -> torch.Tensor:
    """torch's own, on its maths path."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*args, **arguments)


def inputs_of(
    heads: tuple[int, int],
    lengths: tuple[int, int],
    sizes: tuple[int, int],
    dtype: torch.dtype = torch.float32,
    batch: int = 2,
) -> Tensors:
    """Query, key and value; two numbers each: of the query and of the key, a head of the key and one of the value."""
    query = draw((batch, heads[0], lengths[0], sizes[0]), dtype, 1)
    key = draw((batch, heads[1], lengths[1], sizes[0]), dtype, 2)
    return query, key, draw((batch, heads[1], lengths[1], sizes[1]), dtype, 3)


def assert_near(got: torch.Tensor, inputs: Tensors, **arguments: Any) -> None:
    """Beside torch's maths path in float64."""
    wanted = torch_attention(*(each.double() for each in inputs), **arguments)
    verdict = judge(got, [wanted])
    assert got.dtype == inputs[0].dtype and verdict.ok, verdict


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "lengths", "sizes"),
    [((2, 2), (1, 1), (16, 16)), ((4, 2), (150, 150), (64, 64)), ((3, 1), (37, 300), (33, 20)), ((1, 1), (140, 20), (128, 128))],
    ids=str,
)  # fmt: skip
def test_numbers(
    heads: tuple[int, int], lengths: tuple[int, int], sizes: tuple[int, int], is_causal: bool, dtype: torch.dtype
) -> None:
    inputs = inputs_of(heads, lengths, sizes, dtype)
    got = attention(*inputs, is_causal=is_causal, enable_gqa=True)
    assert_near(got, inputs, is_causal=is_causal, enable_gqa=True)
