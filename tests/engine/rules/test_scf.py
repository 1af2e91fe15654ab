"""Loops and conditions whose programs part ways; each at several chunk sizes."""

from __future__ import annotations

import pytest
import torch

from tilesight.checks.bounds import BoundsCheck
from tilesight.engine import Access, ExecutionOptions, Listener
from tilesight.errors import ExecutionError

from .. import kernels
from ..launching import run

CHUNKS = [1, 4, 100]


class CountedLanes(Listener):
    """Counts the lanes of every kind of access."""

    def __init__(self) -> None:
        self.lanes = {"load": 0, "store": 0, "atomic": 0}

    def before_access(self, access: Access) -> None:
        full = torch.ones(access.shape).numpy() > 0
        self.lanes[access.kind] += int((full if access.mask is None else full & access.mask).sum())


@pytest.mark.parametrize("chunk", CHUNKS)
def test_for_with_bounds_of_its_own(chunk: int) -> None:
    lengths = torch.tensor([0, 1, 5, 0, 33, 16, 17, 100, 2])
    starts = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).int()
    x, out = torch.randn(int(starts[-1])), torch.full((9,), 7.0)
    options = ExecutionOptions(chunk_programs=chunk)
    listener = CountedLanes()
    run(kernels.sum_ragged_rows, (9,), (listener,), options, x=x, starts=starts, out=out, BLOCK=16)
    expected = torch.stack([row.double().sum() for row in x.split(lengths.tolist())])
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-6)
    assert listener.lanes == {"load": len(x) + 2 * 9, "store": 9, "atomic": 0}


@pytest.mark.parametrize("chunk", CHUNKS)
def test_programs_that_are_done_keep_their_values(chunk: int) -> None:
    bounds = torch.tensor([[0, 5, 1], [3, 3, 1], [-4, 10, 3], [7, 2, 1], [0, 100, 99], [1, 2, 5]], dtype=torch.int32)
    out = torch.zeros(6, 2, dtype=torch.int32)
    run(kernels.count_iterations, (6,), options=ExecutionOptions(chunk_programs=chunk), bounds=bounds, out=out)
    loops = [list(range(*row)) for row in bounds.tolist()]
    assert out.tolist() == [[len(loop), loop[-1] if loop else -1] for loop in loops]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_programs_that_skip_a_branch_do_not_read(chunk: int) -> None:
    x, out = torch.randn(5, 8), torch.ones(9, 8)
    bounds, options = BoundsCheck(), ExecutionOptions(chunk_programs=chunk)
    run(kernels.load_in_branch, (9,), (bounds,), options, x=x, out=out, limit=5, BLOCK=8)
    assert torch.equal(out[:5], x)
    assert not out[5:].any()
    assert bounds.findings() == []


def steps_to_one(n: int) -> int:
    count = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


@pytest.mark.parametrize("chunk", CHUNKS)
def test_while(chunk: int) -> None:
    n = torch.tensor([1, 2, 3, 27, 6, 97, 1, 871, 9, 10, 0], dtype=torch.int32)
    steps = torch.zeros_like(n)
    run(kernels.collatz, (len(n),), options=ExecutionOptions(chunk_programs=chunk), n=n, steps=steps)
    assert steps.tolist() == [steps_to_one(value) for value in n.tolist()]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_if_by_program(chunk: int) -> None:
    x = torch.arange(80.0).reshape(10, 8)
    before, out = x.clone(), torch.zeros_like(x)
    run(kernels.choose_branch, (10,), options=ExecutionOptions(chunk_programs=chunk), x=x, out=out, BLOCK=8)
    for program in range(10):
        values = before[program]
        if program % 2 == 0:
            expected = (values + 1) * (10 if program % 4 == 0 else 1)
            assert torch.equal(x[program], values)
        else:
            expected = -values
            assert torch.equal(x[program], values - 1)
        assert torch.equal(out[program], expected)


def test_critical_section_runs_one_program_after_another() -> None:
    lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    execution = run(kernels.add_under_lock, (20,), lock=lock, total=total)
    assert (int(total), int(lock), execution.chunks) == (sum(range(20)), 0, 20)


def test_waiting_for_ever_is_an_error() -> None:
    lock = torch.ones(1, dtype=torch.int32)
    with pytest.raises(ExecutionError, match=r"kernels.py:\d+: deadlock: .* \(kernels.py:\d+: programs 0 to 2\)"):
        run(kernels.add_under_lock, (3,), lock=lock, total=lock.clone())
