"""Transposition of the hand-written library, on the engine."""

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
from tilesight.kernels import transpose

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int8, torch.bool]
SHAPES = [
    *(((1, 1), 0, 1), ((70, 133), 0, 1), ((0, 7), 0, 1), ((3, 65, 2), -1, 1), ((2, 3, 4, 5), 1, 3)),
    *(((2, 3, 4, 5), 0, 2), ((2, 3, 4, 5), -4, -1), ((3, 2, 5000), 0, 1), ((7,), 0, 0), ((2, 3), 1, 1)),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "first", "second"), SHAPES, ids=str)
def test_every_element_is_where_it_belongs(shape: tuple[int, ...], first: int, second: int, dtype: torch.dtype) -> None:
    x = (4 * draw(shape, torch.float64)).to(dtype)
    for view in (x, x[..., ::2], x[::2], x.flip(0).movedim(0, -1)):
        got = transpose(view, first, second)
        assert torch.equal(got, view.transpose(first, second)) and got.is_contiguous() and got.dtype == dtype
        assert view.numel() == 0 or got.data_ptr() != view.data_ptr()


def test_nan_and_gradients() -> None:
    x = torch.tensor([[float("nan"), float("inf")], [0.0, -0.0]])
    torch.testing.assert_close(transpose(x, 0, 1), x.t(), equal_nan=True)
    for shape, axes in (((5, 70), (0, 1)), ((2, 3, 4), (0, 1))):
        x = draw(shape, torch.float32)
        assert_near_float64(lambda t, a=axes: transpose(t, *a), lambda t, a=axes: t.transpose(*a), [x])
    leaf = draw((3, 4), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: transpose(t, 0, 1), (leaf,))


def test_the_operator_passes_opcheck() -> None:
    x = draw((3, 20, 2), torch.float32)
    for axes in ((0, 1), (0, 2), (1, 2)):
        torch.library.opcheck(torch.ops.tilesight.transpose.default, (x, *axes))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    assert_compiled_whole(lambda x: transpose(x, 0, 1), [draw((3, 9), torch.float32)])


def test_bad_input() -> None:
    with pytest.raises(IndexError, match=r"transpose: dim is 2; a tensor of 2 axes takes -2 to 1"):
        transpose(torch.zeros(2, 8), 0, 2)
    with pytest.raises(TypeError, match=r"transpose takes .* not torch\.complex64"):
        transpose(torch.zeros(2, 2, dtype=torch.complex64), 0, 1)


@pytest.mark.parametrize(("shapes", "second"), [("70,100", 1), ("3,5,100", 1)])
def test_no_finding(shapes: str, second: int) -> None:
    case = Case(
        eager=lambda x: x.transpose(0, second).contiguous(),
        hand=lambda x: transpose(x, 0, second),
        inputs=f"bf16[{shapes}]",
    )
    assert_no_finding(case, shapes=shapes)
