"""softmax and log-softmax of the hand-written library, on the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.kernels_library.against_float64 import assert_near_float64, draw, dynamo_instantiates_functions
from tilesight import Case, check
from tilesight.kernels import log_softmax, softmax
from tilesight.kernels.row_plan import MOST_PART, plan_rows

FUNCTIONS = pytest.mark.parametrize(
    ("function", "reference"), [(softmax, torch.softmax), (log_softmax, torch.log_softmax)]
)
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
LONG = 20_000
"""Columns of rows that several programs share."""

Function = Callable[..., Any]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (0, 7), (5, 0), (4, 1000), (5, 1009), (2, 3, 129), (2, LONG)], ids=str)
@FUNCTIONS
def test_numbers_and_gradients(
    function: Function, reference: Function, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    assert_near_float64(function, lambda x: reference(x, -1), [3 * draw(shape, dtype)])


def test_long_rows_are_shared_by_programs() -> None:
    assert (plan_rows(2, LONG).parts, plan_rows(2, LONG, is_split=False).parts, plan_rows(500, 1000).parts) == (
        32,
        1,
        1,
    )


@pytest.mark.parametrize("columns", [300, LONG])
@FUNCTIONS
def test_rows_of_infinities_huge_logits_and_nan(function: Function, reference: Function, columns: int) -> None:
    x = draw((6, columns), torch.float32)
    x[0] = float("-inf")
    x[1, : columns - 3] = float("-inf")
    x[2] *= 1e4
    x[3, 7] = float("nan")
    x[4, columns // 2] = float("inf")
    x[5] = 0
    torch.testing.assert_close(function(x), reference(x, -1), equal_nan=True)


@pytest.mark.parametrize("columns", [50, LONG])
def test_strided_rows(columns: int) -> None:
    x = draw((4, 2 * columns), torch.float32)
    for view in (x[:, :columns], x[::2], x[:, ::2], x[:1].expand(3, -1)):
        torch.testing.assert_close(softmax(view), view.softmax(-1))


@pytest.mark.parametrize("dim", [0, 1, 2, -3])
def test_other_axes(dim: int) -> None:
    assert_near_float64(lambda x: softmax(x, dim), lambda x: x.softmax(dim), [draw((3, 4, 5), torch.float32)])


def test_a_number_alone() -> None:
    x = torch.tensor(3.0)
    assert softmax(x, 0) == torch.softmax(x, 0) == 1 and softmax(x, 0).shape == ()


def test_a_second_launch_of_shared_rows_gives_the_same() -> None:
    x = draw((3, LONG), torch.float32)
    first = softmax(x)
    assert torch.equal(softmax(x), first) and torch.equal(softmax(x[1:]), first[1:])


def test_gradcheck() -> None:
    x = draw((2, 5), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(softmax, (x,)) and torch.autograd.gradcheck(log_softmax, (x,))


def test_the_operators_pass_opcheck() -> None:
    x = draw((3, 20), torch.float32)
    torch.library.opcheck(torch.ops.tilesight.softmax_forward.default, (x, False))
    torch.library.opcheck(torch.ops.tilesight.softmax_backward.default, (x, x, True))


@dynamo_instantiates_functions
def test_compiled_whole_and_exported() -> None:
    x = draw((3, 9), torch.float32).requires_grad_()
    compiled = torch.compile(lambda t: softmax(t * 2) + 1, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), (x * 2).softmax(-1) + 1)
    weights = draw((3, 9), torch.float32, 1)
    (grad,) = torch.autograd.grad((compiled(x) * weights).sum(), x)
    torch.testing.assert_close(grad, torch.autograd.grad(((x * 2).softmax(-1) * weights).sum(), x)[0])

    class Module(torch.nn.Module):
        def forward(self, t: torch.Tensor) -> torch.Tensor:
            return softmax(t)

    exported = torch.export.export(Module(), (x.detach(),))
    assert [str(node.target) for node in exported.graph.nodes if node.op == "call_function"] == [
        "tilesight.softmax_forward.default"
    ]


def test_dtype_and_autocast_of_the_cpu() -> None:
    x = draw((2, 8), torch.bfloat16)
    assert softmax(x, dtype=torch.float32).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert softmax(x).dtype == torch.softmax(x, -1).dtype == torch.bfloat16


def test_bad_input() -> None:
    with pytest.raises(IndexError, match=r"dim is 2; a tensor of 2 axes takes -2 to 1"):
        softmax(torch.zeros(2, 3), 2)
    with pytest.raises(TypeError, match=r"not torch\.int64"):
        softmax(torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match=f"at most {MOST_PART:,} are supported"):
        softmax(torch.zeros(1, MOST_PART + 1, dtype=torch.float64))


@pytest.mark.parametrize("shapes", ["5,300", f"2,{LONG}"])
def test_no_finding(shapes: str) -> None:
    case = Case(eager=lambda x: torch.softmax(x, -1), hand=softmax, inputs="bf16[5,300]")
    found = check(case, shapes=shapes, dtypes="bf16")
    assert not found.findings and all(each.ok for each in found.cases)
