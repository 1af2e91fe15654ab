"""Running sums of the hand-written library, on the engine."""

from __future__ import annotations

import pytest
import torch

from tests.kernels_library.against_float64 import (
    assert_compiled_whole,
    assert_near_float64,
    assert_no_finding,
    draw,
    dynamo_instantiates_functions,
)
from tilesight import Case
from tilesight.kernels import cumsum

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SHAPES = [
    ((1,), 0),
    ((3, 1009), -1),
    ((70, 3), 0),
    ((2, 130, 150), 1),
    ((2, 5, 0), 1),
    ((140, 1500), 1),
    ((2, 2500), 1),
]
"""The last one is shared by programs; the one before takes more than one tile where it is float64."""


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_numbers_and_gradients(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    assert_near_float64(lambda x: cumsum(x, dim), lambda x: torch.cumsum(x, dim), [draw(shape, dtype)])


def test_more_than_one_tile() -> None:
    for shape, dim in (((2, 9000), 1), ((300, 40), 0), ((2, 5000), 1)):
        x = draw(shape, torch.float64)
        assert_near_float64(lambda t, dim=dim: cumsum(t, dim), lambda t, dim=dim: torch.cumsum(t, dim), [x])


def test_a_number_alone_strides_and_dtypes() -> None:
    assert cumsum(torch.tensor(3), 0) == 3 and cumsum(torch.tensor(3), 0).shape == ()
    x = draw((6, 2000), torch.float32)
    for view in (x[::2], x[:, ::2], x.t(), x[:1].expand(4, -1)):
        for dim in (0, 1):
            torch.testing.assert_close(cumsum(view, dim), torch.cumsum(view, dim), atol=1e-4, rtol=1e-4)
    for dtype in (torch.int64, torch.int32, torch.int8, torch.bool):
        whole = (x * 10).to(dtype)
        assert torch.equal(cumsum(whole, 1), whole.cumsum(1)) and torch.equal(cumsum(whole, 0), whole.cumsum(0))
    assert cumsum(x.bfloat16(), 1, dtype=torch.float32).dtype == torch.float32
    long = torch.ones(1, 5000, dtype=torch.bfloat16)
    assert float(cumsum(long, 1)[0, -1]) == 4992


@pytest.mark.parametrize("columns", [300, 2500])
def test_nan_and_infinity_go_on_from_where_they_are(columns: int) -> None:
    x = draw((3, columns), torch.float32)
    x[0, 7], x[1, columns - 5], x[2, columns // 2] = float("nan"), float("inf"), float("-inf")
    for dim, tensor in ((1, x), (0, x.t().contiguous())):
        torch.testing.assert_close(cumsum(tensor, dim), tensor.cumsum(dim), equal_nan=True, atol=1e-4, rtol=1e-4)


def test_gradcheck() -> None:
    x = draw((3, 4, 2), torch.float64).requires_grad_()
    for dim in range(3):
        assert torch.autograd.gradcheck(lambda t, dim=dim: cumsum(t, dim), (x,))


def test_the_operator_passes_opcheck() -> None:
    x = draw((3, 20, 2), torch.float32)
    for dim, back in ((0, True), (1, False), (2, True)):
        torch.library.opcheck(torch.ops.tilesight.cumsum.default, (x, dim, torch.float32, back))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    assert_compiled_whole(lambda x: cumsum(x, 1), [draw((3, 9), torch.float32)])


def test_bad_input() -> None:
    with pytest.raises(IndexError, match=r"cumsum: dim is -3; a tensor of 2 axes takes -2 to 1"):
        cumsum(torch.zeros(2, 8), -3)
    with pytest.raises(TypeError, match=r"cumsum takes .* not torch\.complex64"):
        cumsum(torch.zeros(2, dtype=torch.complex64), 0)


@pytest.mark.parametrize(("shapes", "dim"), [("5,300", 1), ("300,5", 0), ("2,1100", 1)])
def test_no_finding(shapes: str, dim: int) -> None:
    case = Case(eager=lambda x: torch.cumsum(x, dim), hand=lambda x: cumsum(x, dim), inputs="f32[5,300]")
    assert_no_finding(case, shapes=shapes, dtypes="f32")
