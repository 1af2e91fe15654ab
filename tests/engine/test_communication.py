"""Programs that wait for each other, and what may run at the same time."""

from __future__ import annotations

import pytest
import torch

from tilesight.engine import ExecutionOptions
from tilesight.engine.communication import chunks_are_independent, order_is_seen, programs_wait, stored_tensors
from tilesight.engine.plan import plan_module
from tilesight.errors import ExecutionError
from tilesight.ir import parse_module

from . import kernels
from .launching import launch_of, run


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def test_a_program_may_wait_for_a_later_one() -> None:
    flags, out = torch.zeros(40, dtype=torch.int32), torch.zeros(41, dtype=torch.int32)
    run(kernels.wait_for_the_next, (40,), flags=flags, out=out, n=40)
    assert out.tolist() == [*range(40, 0, -1), 0]


def test_volatile_loads_wait_too() -> None:
    flags = torch.zeros(30, dtype=torch.int32)
    run(kernels.poll_for_the_next, (30,), flags=flags, n=30)
    assert flags.tolist() == [1] * 30


def test_work_is_taken_until_there_is_none() -> None:
    counter, out = int32(0), torch.zeros(1000, dtype=torch.int32)
    run(kernels.take_work, (7,), counter=counter, out=out, n=1000)
    assert out.tolist() == [index * index for index in range(1000)]
    assert int(counter) == 1007


def test_a_deadlock_names_the_lines_that_wait() -> None:
    flags = int32(0, 0, 0)
    message = (
        r"^kernels.py:\d+: deadlock: .*programs 0, 1\).* the launch stopped half way: flags may be partly written$"
    )
    with pytest.raises(ExecutionError, match=message):
        run(kernels.wait_for_each_other, (2,), flags=flags)


def test_a_loop_that_counts_as_it_waits_is_given_up() -> None:
    flags = torch.zeros(9, dtype=torch.int32)
    with pytest.raises(ExecutionError, match=r"kernels.py:\d+: deadlock: .*programs 0 to 2"):
        run(kernels.poll_for_the_next, (3,), options=ExecutionOptions(spin_limit=20), flags=flags, n=9)


def sequential_float32_sums(x: torch.Tensor, programs: int) -> list[float]:
    """The sums of `sum_twice_atomically`, added in f32 program after program."""
    totals = [torch.zeros((), dtype=torch.float32) for _ in range(4)]
    for block in range(programs):
        values = x[block * 64 : block * 64 + 64]
        for part in (values.numpy().sum(), (values * values).numpy().sum()):
            totals[0] = totals[0] + torch.tensor(part)
        for lane in range(len(values)):
            place = 1 + (block * 64 + lane) % 3
            totals[place] = totals[place] + values[lane]
    return [float(total) for total in totals]


@pytest.mark.parametrize(("chunk", "threads"), [(1, 1), (3, 1), (64, 1), (2, 3), (5, 2)])
def test_float_atomics_add_up_program_by_program(chunk: int, threads: int) -> None:
    x = torch.randn(64 * 20, generator=torch.Generator().manual_seed(3)) * 1000
    totals = torch.zeros(4)
    options = ExecutionOptions(chunk_programs=chunk, threads=threads)
    execution = run(kernels.sum_twice_atomically, (20,), options=options, x=x, totals=totals, n=len(x), BLOCK=64)
    assert execution.threads == threads
    assert totals.tolist() == sequential_float32_sums(x, 20)


@pytest.mark.parametrize("chunk", [1, 4])
def test_a_load_sees_the_atomics_before_it(chunk: int) -> None:
    total, out = torch.zeros(1), torch.zeros(8)
    run(kernels.add_then_read, (8,), options=ExecutionOptions(chunk_programs=chunk), total=total, out=out)
    assert float(total) == 8
    assert out.tolist() == [float((program // chunk + 1) * chunk) for program in range(8)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_last_program_wins_a_race_at_any_number_of_threads(threads: int) -> None:
    for _ in range(5):
        out = torch.zeros(16, dtype=torch.int32)
        options = ExecutionOptions(chunk_programs=3, threads=threads)
        run(kernels.store_everywhere, (100,), options=options, out=out, BLOCK=16)
        assert out.tolist() == [99] * 16


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_change_nothing(threads: int) -> None:
    x = torch.randn(500, 200)
    one, many = torch.zeros_like(x), torch.zeros_like(x)
    sizes = {"columns": 200, "stride": 200, "BLOCK": 256}
    run(kernels.softmax, (500,), options=ExecutionOptions(threads=1), x=x, out=one, **sizes)  # pyright: ignore[reportArgumentType]
    options = ExecutionOptions(threads=threads, chunk_programs=7)
    execution = run(kernels.softmax, (500,), options=options, x=x, out=many, **sizes)  # pyright: ignore[reportArgumentType]
    assert execution.threads == threads
    assert torch.equal(one, many)


def test_in_place_kernels_run_in_one_thread() -> None:
    x = torch.ones(1000)
    launch = launch_of(kernels.add, (4,), {"x": x, "y": x, "out": x, "n": 1000, "BLOCK": 256})
    plan = plan_module(parse_module(launch.ttir))
    assert not chunks_are_independent(plan, launch)
    apart = launch_of(kernels.add, (4,), {"x": x, "y": x, "out": x.clone(), "n": 1000, "BLOCK": 256})
    assert chunks_are_independent(plan, apart)
    assert stored_tensors(plan.module, apart) == ["out"]


def test_what_a_kernel_tells_of_its_programs() -> None:
    flags = int32(0, 0, 0)
    waiting = launch_of(kernels.wait_for_each_other, (2,), {"flags": flags})
    assert programs_wait(parse_module(waiting.ttir))
    adding = launch_of(kernels.add_then_read, (2,), {"total": torch.zeros(1), "out": torch.zeros(2)})
    plan = plan_module(parse_module(adding.ttir))
    assert not programs_wait(plan.module)
    assert not order_is_seen(plan)


def test_a_launch_that_fails_half_way_says_what_it_wrote() -> None:
    x, out = torch.ones(64), torch.zeros(64)
    options = ExecutionOptions(chunk_programs=1)
    with pytest.raises(ExecutionError, match=r"told to fail.* the launch stopped half way: out may be partly written"):
        run(kernels.fail_in_program, (4,), (), options, debug=True, x=x, out=out, program=2, BLOCK=16)
    assert out.tolist() == [1.0] * 48 + [0.0] * 16
