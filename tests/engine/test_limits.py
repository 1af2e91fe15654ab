"""The memory cap, the grid's limits, and arguments of the wrong kind: errors before anything is written."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import torch

from tilesight.engine import Argument, ExecutionOptions, Launch, execute
from tilesight.engine.budget import need_of
from tilesight.engine.plan import plan_module
from tilesight.errors import ExecutionError, InputError
from tilesight.ir import parse_module

from . import kernels
from .launching import launch_of

MIB = 1 << 20


def softmax_launch(rows: int, columns: int) -> tuple[Launch, torch.Tensor]:
    x, out = torch.randn(rows, columns), torch.zeros(rows, columns)
    arguments = {"x": x, "out": out, "columns": columns, "stride": columns, "BLOCK": columns}
    return launch_of(kernels.softmax, (rows,), arguments), out


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("cap", [1 * MIB, 8 * MIB, 64 * MIB])
def test_values_stay_under_the_cap(cap: int, threads: int) -> None:
    launch, out = softmax_launch(3000, 1024)
    module = parse_module(launch.ttir)
    execute(module, launch, (), ExecutionOptions(threads=1))
    options = ExecutionOptions(memory_cap_bytes=cap, threads=threads)
    tracemalloc.start()
    execute(module, launch, (), options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The heap is primed with one block of 31 MiB that is freed before the first program runs.
    assert peak <= max(cap, 31 * MIB) + MIB
    torch.testing.assert_close(out, torch.softmax(launch_input(launch), 1))


def launch_input(launch: Launch) -> torch.Tensor:
    memory = launch.memories[0]
    return torch.from_numpy(memory.data.view("float32").reshape(memory.shape))


def test_one_program_over_the_cap_is_refused_before_it_writes() -> None:
    launch, out = softmax_launch(4, 8192)
    module = parse_module(launch.ttir)
    need = need_of(plan_module(module)).bytes
    message = rf"^kernels.py:\d+: one program's values take up to {need:,} bytes at once; expected at most "
    with pytest.raises(ExecutionError, match=message):
        execute(module, launch, (), ExecutionOptions(memory_cap_bytes=need - 1))
    assert out.count_nonzero() == 0
    execute(module, launch, (), ExecutionOptions(memory_cap_bytes=need))
    assert out.count_nonzero() == out.numel()


@pytest.mark.parametrize(
    ("grid", "axis"), [((2**31, 1, 1), "x"), ((1, 65_536, 1), "y"), ((1, 1, 65_536), "z"), ((-1, 1, 1), "x")]
)
def test_a_grid_that_no_gpu_launches(grid: tuple[int, int, int], axis: str) -> None:
    launch, _ = softmax_launch(4, 64)
    with pytest.raises(InputError, match=rf"a grid of -?\d+ programs along {axis} for softmax; expected 0 to "):
        execute(parse_module(launch.ttir), with_(launch, grid=grid))


@pytest.mark.parametrize("grid", [(0, 1, 1), (0, 70_000, 1), (70_000, 0, 70_000), (1, 2**31 - 1, 0)], ids=str)
def test_an_empty_grid_launches_nothing_whatever_its_other_extents(grid: tuple[int, int, int]) -> None:
    """Triton's launcher skips the launch where the product of the extents is not positive."""
    launch, out = softmax_launch(4, 64)
    assert execute(parse_module(launch.ttir), with_(launch, grid=grid)).programs == 0
    assert out.count_nonzero() == 0


@pytest.mark.parametrize("grid", [(0, -1, 1), (0, 2**31, 1)], ids=str)
def test_an_empty_grid_of_what_is_no_extent_is_refused(grid: tuple[int, int, int]) -> None:
    launch, _ = softmax_launch(4, 64)
    with pytest.raises(InputError, match="programs along y for softmax; expected 0 to "):
        execute(parse_module(launch.ttir), with_(launch, grid=grid))


def with_(launch: Launch, **changes: Any) -> Launch:
    return Launch(**{**launch.__dict__, **changes})


@pytest.mark.parametrize(("place", "value"), [(0, 1.5), (2, 3.25), (2, None)])
def test_an_argument_of_the_wrong_kind(place: int, value: Any) -> None:
    launch, out = softmax_launch(4, 64)
    arguments = list(launch.arguments)
    arguments[place] = Argument(arguments[place].name, value)
    with pytest.raises(InputError, match=f"for parameter {arguments[place].name}; expected a value of type"):
        execute(parse_module(launch.ttir), with_(launch, arguments=tuple(arguments)))
    assert out.count_nonzero() == 0
