"""Loads and stores: which lane wins, what wraps around, what is never touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesight.checks.bounds import BoundsCheck
from tilesight.engine import Access, ExecutionOptions, Listener

from .. import kernels
from ..launching import run

CHUNKS = [1, 3, 50]


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("steps", [(0, 1), (1, 1), (3, 1), (8, 1), (11, 1), (1, 3), (2, 3), (0, 0)])
def test_the_last_lane_of_the_last_program_wins(steps: tuple[int, int], chunk: int) -> None:
    out = torch.full((100,), -1, dtype=torch.int32)
    expected = out.clone()
    for program in range(7):
        for lane in range(8):
            expected[program * steps[0] + lane * steps[1]] = program * 100 + lane
    sizes: dict[str, Any] = {"program_step": steps[0], "lane_step": steps[1], "BLOCK": 8}
    run(kernels.store_overlapping, (7,), options=ExecutionOptions(chunk_programs=chunk), out=out, **sizes)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_offsets_wrap_around_in_int32(chunk: int) -> None:
    out, negative = torch.zeros(2, 5, 16, dtype=torch.int32)
    wide, factor = torch.zeros(5, 16, dtype=torch.int64), 123_456_789
    results: dict[str, Any] = {"out": out, "wide": wide, "negative": negative}
    options = ExecutionOptions(chunk_programs=chunk)
    run(kernels.wrap_around, (5,), options=options, **results, factor=factor, BLOCK=16)
    exact = factor * (torch.arange(5)[:, None] + torch.arange(16))
    wrapped = (exact + 2**31) % 2**32 - 2**31
    assert torch.equal(out.long(), wrapped)
    assert torch.equal(wide, wrapped)
    assert torch.equal(negative.bool(), wrapped < 0)


@pytest.mark.parametrize("n", [1, 5, 13, 16])
def test_a_tile_larger_than_its_matrix(n: int) -> None:
    """Masked-off lanes lie outside or in the next row, and still hold `other`."""
    x, out = torch.randn(n, n), torch.zeros(n, n)
    run(kernels.copy_triangle, (1,), x=x, out=out, n=n, BLOCK=16)
    assert torch.equal(out, torch.where(torch.ones(n, n).tril() > 0, x, -1.0))


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_an_address_between_two_elements_is_not_read(shift: int) -> None:
    """The view is aligned to the tensor's first byte, so only multiples of the word are elements."""
    x, out = torch.arange(40, dtype=torch.uint8), torch.zeros(8, dtype=torch.int32)
    check = BoundsCheck()
    run(kernels.load_words, (1,), (check,), x=x, out=out, shift=shift, BLOCK=8)
    if shift % 4 == 0:
        assert out.tolist() == x[shift : shift + 32].view(torch.int32).tolist()
        assert check.findings() == []
    else:
        assert len(set(out.tolist())) == 1
        (finding,) = check.findings()
        assert "between two of its elements" in finding.message
        assert finding.hint == "keep the address a multiple of 4 bytes from the tensor's first"


class Recorder(Listener):
    """Keeps what it hears, with masks and addresses spread out."""

    def __init__(self) -> None:
        self.before: list[Access] = []
        self.after: list[Access] = []

    def before_access(self, access: Access) -> None:
        self.before.append(access)

    def after_access(self, access: Access) -> None:
        self.after.append(access)


def test_what_listeners_hear() -> None:
    x, y, out = torch.arange(20.0), torch.ones(20), torch.zeros(20)
    recorder = Recorder()
    run(kernels.add, (2,), (recorder,), x=x, y=y, out=out, n=19, BLOCK=16)
    assert [(access.kind, access.memory and access.memory.name) for access in recorder.after] == [
        ("load", "x"),
        ("load", "y"),
        ("store", "out"),
    ]
    assert [access.values is None for access in recorder.before] == [True, True, False]
    load, _, store = recorder.after
    assert load.shape == (2, 16) and load.item_bytes == 4 and load.location.file == kernels.__file__
    lanes = np.arange(32).reshape(2, 16)
    assert (np.broadcast_to(load.address, load.shape) == x.data_ptr() + 4 * lanes).all()
    assert load.mask is not None and (np.broadcast_to(load.mask, load.shape) == (lanes < 19)).all()
    assert load.values is not None and load.values[1, 2] == 18
    assert store.values is not None and store.values[1, 2] == 19
    assert store.out_of_bounds is None and load.out_of_bounds is None


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 40), chunk=st.integers(1, 12))
def test_transposed_tiles(rows: int, columns: int, chunk: int) -> None:
    """Whatever the tails and chunks, every element arrives and nothing around it changes."""
    x, around = torch.randn(rows, columns), torch.full((rows * columns + 20,), 7.0)
    out = around[10 : 10 + rows * columns].view(columns, rows)
    grid, options = (-(-rows // 16), -(-columns // 16)), ExecutionOptions(chunk_programs=chunk)
    run(kernels.transpose, grid, options=options, x=x, out=out, M=rows, N=columns, BLOCK=16)
    assert torch.equal(out, x.T)
    assert (around[:10] == 7).all() and (around[-10:] == 7).all()


class StoreRecorder(Recorder):
    hears_kinds = frozenset(("store",))


def test_a_listener_hears_the_kinds_of_access_that_it_names() -> None:
    x, y, out = torch.arange(20.0), torch.ones(20), torch.zeros(20)
    stores, everything = StoreRecorder(), Recorder()
    run(kernels.add, (2,), (stores, everything), x=x, y=y, out=out, n=19, BLOCK=16)
    assert [access.kind for access in stores.before + stores.after] == ["store", "store"]
    assert [access.kind for access in everything.after] == ["load", "load", "store"]
