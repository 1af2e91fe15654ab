"""Whole kernels: against torch's float64, and the same at every chunk size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesight.engine import ExecutionOptions, execute
from tilesight.errors import ExecutionError, InputError, UnsupportedError
from tilesight.ir import parse_module

from . import kernels
from .launching import launch_of, run

CHUNKS = [1, 3, 64]


def in_chunks(size: int) -> ExecutionOptions:
    return ExecutionOptions(chunk_programs=size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8])
@pytest.mark.parametrize("size", [1, 255, 256, 1000])
def test_add_is_what_torch_computes(size: int, dtype: torch.dtype) -> None:
    x, y = (torch.randn(size) * 50).to(dtype), (torch.randn(size) * 50).to(dtype)
    out = torch.zeros(size, dtype=dtype)
    execution = run(kernels.add, (-(-size // 256),), x=x, y=y, out=out, n=size, BLOCK=256)
    assert torch.equal(out, x + y)
    assert execution.programs == -(-size // 256)


def test_an_empty_grid_runs_nothing() -> None:
    out = torch.zeros(4)
    assert run(kernels.add, (0,), x=out, y=out, out=out, n=4, BLOCK=16).chunks == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (7, 100), (64, 256)])
def test_softmax(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = torch.randn(shape).to(dtype)
    out = torch.zeros_like(x)
    run(kernels.softmax, (shape[0],), x=x, out=out, columns=shape[1], stride=shape[1], BLOCK=256)
    expected = torch.softmax(x.double(), 1)
    tolerance = 1e-6 if dtype == torch.float32 else 4e-3
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)


@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 64), gap=st.integers(0, 9), chunk=st.integers(1, 50))
def test_softmax_is_the_same_at_any_chunk_size(rows: int, columns: int, gap: int, chunk: int) -> None:
    """Bit for bit, also where rows are strided and the last chunk is short."""
    storage = torch.randn(rows, columns + gap)
    x = storage[:, :columns]
    whole, parts = torch.zeros_like(storage), torch.zeros_like(storage)
    arguments: dict[str, Any] = {"x": x, "columns": columns, "stride": columns + gap, "BLOCK": 64}
    run(kernels.softmax, (rows,), options=in_chunks(rows), out=whole, **arguments)
    run(kernels.softmax, (rows,), options=in_chunks(chunk), out=parts, **arguments)
    assert torch.equal(whole, parts)
    torch.testing.assert_close(whole[:, :columns].double(), torch.softmax(x.double(), 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("shape", [(64, 64, 64), (50, 70, 33), (1, 1, 1)])
def test_matmul(shape: tuple[int, int, int], chunk: int) -> None:
    M, N, K = shape
    a, b, c = torch.randn(M, K).half(), torch.randn(K, N).half(), torch.zeros(M, N)
    blocks: dict[str, Any] = {"BLOCK": 32, "BLOCK_N": 16, "PRECISION": "ieee"}
    grid = (-(-M // 32), -(-N // 16))
    run(kernels.matmul, grid, options=in_chunks(chunk), a=a, b=b, c=c, M=M, N=N, K=K, **blocks)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_transpose(dtype: torch.dtype, chunk: int) -> None:
    x = torch.randn(37, 21).to(dtype)
    out = torch.zeros(21, 37, dtype=dtype)
    run(kernels.transpose, (3, 2), options=in_chunks(chunk), x=x, out=out, M=37, N=21, BLOCK=16)
    assert torch.equal(out, x.T)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_grid_coordinates(chunk: int) -> None:
    out = torch.zeros(2, 3, 5, dtype=torch.int32)
    run(kernels.grid_coordinates, (5, 3, 2), options=in_chunks(chunk), out=out)
    z, y, x = torch.meshgrid(torch.arange(2), torch.arange(3), torch.arange(5), indexing="ij")
    assert torch.equal(out.long(), x * 10000 + y * 100 + z)


@pytest.mark.parametrize(("undefined", "expected"), [("poison", float("nan")), (0, 0.0), (7.5, 7.5)])
def test_masked_lanes_without_other(undefined: str | float, expected: float) -> None:
    out = torch.zeros(16)
    options = ExecutionOptions(undefined=undefined)
    run(kernels.load_masked_without_other, (1,), options=options, x=torch.ones(16), out=out, n=10, BLOCK=16)
    torch.testing.assert_close(out, torch.tensor([1.0] * 10 + [expected] * 6), equal_nan=True)
    integers = torch.zeros(16, dtype=torch.int32)
    run(kernels.load_masked_without_other, (1,), x=integers.clone(), out=integers, n=10, BLOCK=16)
    assert all(value > 1 << 28 and value % 2 for value in integers[10:].tolist())


def test_an_operation_without_a_rule_names_the_line() -> None:
    launch = launch_of(
        kernels.add, (1,), {"x": torch.ones(4), "y": torch.ones(4), "out": torch.zeros(4), "n": 4, "BLOCK": 4}
    )
    module = parse_module(launch.ttir)
    next(op for op in module.kernel.walk() if op.name == "arith.addf").name = "tt.frobnicate"
    with pytest.raises(
        UnsupportedError,
        match=r"^kernels.py:\d+: no execution rule for tt.frobnicate; rules live in engine/rules/tt.py$",
    ):
        execute(module, launch)


def test_arguments_must_line_up() -> None:
    launch = launch_of(kernels.grid_coordinates, (1,), {"out": torch.zeros(1, dtype=torch.int32)})
    other = launch_of(
        kernels.add, (1,), {"x": torch.ones(4), "y": torch.ones(4), "out": torch.ones(4), "n": 4, "BLOCK": 4}
    )
    with pytest.raises(InputError, match="1 arguments for grid_coordinates; expected 4: x, y, out, n"):
        execute(parse_module(other.ttir), launch)


def test_pointers_that_are_read_from_memory() -> None:
    """The tensor is found by address; a tensor that the launch does not know is never touched."""
    first, stranger = torch.arange(8.0), torch.arange(8.0)
    addresses, out = torch.tensor([stranger.data_ptr(), first.data_ptr()]), torch.zeros(2, 8)
    arguments: dict[str, Any] = {"addresses": addresses, "known": first, "out": out, "BLOCK": 8}
    run(kernels.load_through_pointers, (2,), **arguments)
    assert out[0].isnan().all()
    assert torch.equal(out[1], first)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_sort(chunk: int) -> None:
    x, out = torch.randn(5, 32), torch.zeros(5, 32)
    run(kernels.sort_rows, (5,), options=in_chunks(chunk), x=x, out=out, BLOCK=32)
    assert torch.equal(out, x.sort(1).values)


def test_random_numbers_are_uniform_and_reproducible() -> None:
    first, second = torch.zeros(4096), torch.zeros(4096)
    run(kernels.random_numbers, (4,), options=in_chunks(1), out=first, seed=7, BLOCK=1024)
    run(kernels.random_numbers, (4,), options=in_chunks(4), out=second, seed=7, BLOCK=1024)
    assert torch.equal(first, second)
    assert float(first.min()) >= 0 and float(first.max()) < 1
    assert abs(float(first.mean()) - 0.5) < 0.02
    assert first.unique().numel() > 4000


def test_failed_assert() -> None:
    x = torch.ones(64)
    x[16:32] = -1
    run(kernels.assert_positive, (4,), debug=True, x=x, BLOCK=16)
    x[37] = 0
    with pytest.raises(
        ExecutionError, match=r"kernels.py:\d+: device assert failed in program 2, lane 5: must be positive"
    ):
        run(kernels.assert_positive, (4,), debug=True, x=x, BLOCK=16)


def test_print_shows_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    run(kernels.print_block, (2,), x=torch.arange(4.0), BLOCK=2)
    assert capsys.readouterr().out == (
        "pid (0, 0, 0) idx (0) values: 0.000000\npid (0, 0, 0) idx (1) values: 1.000000\n"
        "pid (1, 0, 0) idx (0) values: 2.000000\npid (1, 0, 0) idx (1) values: 3.000000\n"
    )
