"""Atomics: every lane counts, duplicates too, in the order of programs and lanes."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_, xor

import pytest
import torch

from tilesight.engine import ExecutionOptions

from .. import kernels
from ..launching import run

CHUNKS = [1, 3, 50]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_counters_give_each_lane_its_own_number(chunk: int) -> None:
    x = torch.randint(0, 5, (100,), dtype=torch.int32)
    counts, order = torch.zeros(5, dtype=torch.int32), torch.full((100,), -1, dtype=torch.int32)
    options = ExecutionOptions(chunk_programs=chunk)
    run(kernels.count_values, (7,), options=options, x=x, counts=counts, order=order, n=100, BLOCK=16)
    assert torch.equal(counts.long(), torch.bincount(x.long(), minlength=5))
    seen = [0] * 5
    for value, number in zip(x.tolist(), order.tolist(), strict=True):
        assert number == seen[value]
        seen[value] += 1


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_float_sums(dtype: torch.dtype, chunk: int) -> None:
    x, total = torch.randn(1000).to(dtype), torch.zeros(1, dtype=dtype)
    run(
        kernels.sum_atomically,
        (16,),
        options=ExecutionOptions(chunk_programs=chunk),
        x=x,
        total=total,
        n=1000,
        BLOCK=64,
    )
    tolerance = {torch.float32: 1e-5, torch.float16: 0.1, torch.bfloat16: 0.8}[dtype]
    assert abs(float(total) - float(x.double().sum())) < tolerance * 10
    again = torch.zeros(1, dtype=dtype)
    run(kernels.sum_atomically, (16,), options=ExecutionOptions(chunk_programs=5), x=x, total=again, n=1000, BLOCK=64)
    assert torch.equal(total, again)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_update(chunk: int) -> None:
    x = torch.randint(-(2**31), 2**31 - 1, (9, 8), dtype=torch.int32)
    names = ["low", "high", "bits_and", "bits_or", "bits_xor", "last"]
    start = {"low": 2**31 - 1, "high": -(2**31), "bits_and": -1}
    results = {name: torch.full((8,), start.get(name, 0), dtype=torch.int32) for name in names}
    run(kernels.update_all, (9,), (), ExecutionOptions(chunk_programs=chunk), x=x, **results, BLOCK=8)  # pyright: ignore[reportArgumentType]
    columns = x.T.tolist()
    assert torch.equal(results["low"], x.amin(0))
    assert torch.equal(results["high"], x.amax(0))
    assert results["bits_and"].tolist() == [reduce(and_, column) for column in columns]
    assert results["bits_or"].tolist() == [reduce(or_, column) for column in columns]
    assert results["bits_xor"].tolist() == [reduce(xor, column) for column in columns]
    assert torch.equal(results["last"], x[-1])


@pytest.mark.parametrize("chunk", CHUNKS)
def test_float_maximum_goes_through_integers(chunk: int) -> None:
    """Triton orders floats by their bits: signed for positive ones, unsigned for negative ones."""
    x = torch.randn(6, 32)
    largest, smallest = torch.full((1,), -float("inf")), torch.full((1,), float("inf"))
    options = ExecutionOptions(chunk_programs=chunk)
    run(kernels.largest_of_all, (6,), options=options, x=x, largest=largest, smallest=smallest, BLOCK=32)
    assert (float(largest), float(smallest)) == (float(x.max()), float(x.min()))
