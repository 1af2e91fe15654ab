"""RMSNorm of the hand-written library, alone and behind an addition, on the engine."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.kernels_library.against_float64 import assert_near_float64, draw, dynamo_instantiates_functions
from tilesight import Case, check
from tilesight.kernels import add_rms_norm, rms_norm, softmax
from tilesight.kernels.row_plan import plan_rows

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
LONG = 20_000
EPS = 1e-5


def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return rms_norm(x, weight.shape, weight, EPS)


def reference_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, EPS)


def add_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return add_rms_norm(x, residual, weight, EPS)


def reference_add_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return F.rms_norm(total, weight.shape, weight, EPS), total


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (0, 7), (40, 1000), (5, 1009), (2, 3, 129), (3, LONG)], ids=str)
def test_numbers_and_gradients(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    assert_near_float64(norm, reference_norm, [draw(shape, dtype), draw(shape[-1:], dtype, 1)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (0, 7), (5, 1009), (3, LONG)], ids=str)
def test_numbers_and_gradients_behind_an_addition(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """In halves, so that the sum is exact in bf16 and what is normalised is the same in both."""
    halves = [(draw(shape, torch.float64, seed) * 2).round().to(dtype) / 2 for seed in (0, 1)]
    assert_near_float64(add_norm, reference_add_norm, [*halves, draw(shape[-1:], dtype, 2)])


def test_without_weight_and_with_the_default_eps() -> None:
    x = draw((4, 20), torch.float32)
    torch.testing.assert_close(rms_norm(x, (20,)), F.rms_norm(x, (20,)))
    zeros = torch.zeros(2, 20)
    assert torch.equal(rms_norm(zeros, (20,)), zeros)
    assert_near_float64(lambda t: rms_norm(t, (20,), None, EPS), lambda t: F.rms_norm(t, (20,), None, EPS), [x])


def test_the_last_two_axes() -> None:
    inputs = [draw((3, 4, 5), torch.float32), draw((4, 5), torch.float32, 1)]
    assert_near_float64(norm, reference_norm, inputs)


@pytest.mark.parametrize("columns", [50, LONG])
def test_strided_rows(columns: int) -> None:
    x = draw((4, 2 * columns), torch.float32)
    for view in (x[:, :columns], x[::2], x[:, ::2]):
        torch.testing.assert_close(rms_norm(view, view.shape[-1:]), F.rms_norm(view, view.shape[-1:]))


@pytest.mark.parametrize("columns", [300, LONG])
def test_nan_and_infinity_stay_in_their_rows(columns: int) -> None:
    x = draw((3, columns), torch.float32)
    x[0, 3], x[1, 4] = float("nan"), float("inf")
    torch.testing.assert_close(rms_norm(x, (columns,)), F.rms_norm(x, (columns,)), equal_nan=True)


def test_more_rows_than_groups_of_shared_rows() -> None:
    """Programs that share rows go on to the next one while their siblings are still at the last."""
    assert_near_float64(norm, reference_norm, [draw((37, 2048), torch.float32), draw((2048,), torch.float32, 1)])


def test_shared_rows_of_another_kernel_do_not_take_words_of_a_backward_pass() -> None:
    """After an odd number of rows one half of a group's words is a turn ahead; softmax has words of the same number."""
    x = draw((1, 2048), torch.float32)
    assert plan_rows(1, 2048).parts == 2
    for _ in range(3):
        norm(x.requires_grad_(), torch.ones(2048)).sum().backward()
        torch.testing.assert_close(softmax(30 * x), (30 * x).softmax(-1))


def test_gradcheck() -> None:
    x, residual, weight = (
        draw(shape, torch.float64, seed).requires_grad_() for seed, shape in enumerate([(3, 5), (3, 5), (5,)])
    )
    assert torch.autograd.gradcheck(lambda a, w: rms_norm(a, (5,), w, 1e-3), (x, weight))
    assert torch.autograd.gradcheck(lambda a, b, w: add_rms_norm(a, b, w, 1e-3), (x, residual, weight))


def test_the_operators_pass_opcheck() -> None:
    x, weight = draw((3, 20), torch.float32), draw((20,), torch.float32, 1)
    forward, backward = torch.ops.tilesight.rms_norm_forward.default, torch.ops.tilesight.rms_norm_backward.default
    torch.library.opcheck(forward, (x, None, weight, 20, EPS))
    torch.library.opcheck(forward, (x, x, None, 20, EPS))
    torch.library.opcheck(backward, (x, x, x, weight, torch.ones(3)))
    torch.library.opcheck(backward, (x, None, x, None, torch.ones(3)))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    x, weight = draw((3, 9), torch.float32).requires_grad_(), draw((9,), torch.float32, 1).requires_grad_()
    compiled = torch.compile(lambda t, w: norm(t * 2, w) + 1, fullgraph=True, backend="aot_eager")
    expected = reference_norm(x * 2, weight) + 1
    torch.testing.assert_close(compiled(x, weight), expected)
    for got, wanted in zip(
        torch.autograd.grad(compiled(x, weight).square().sum(), (x, weight)),
        torch.autograd.grad(expected.square().sum(), (x, weight)),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted)


def test_bad_input() -> None:
    x = torch.zeros(2, 8)
    with pytest.raises(RuntimeError, match=r"normalized_shape is \[7\], the input's shape \[2, 8\] must end with it"):
        rms_norm(x, (7,))
    with pytest.raises(RuntimeError, match=r"weight has shape \[4\], expected normalized_shape \[8\]"):
        rms_norm(x, (8,), torch.ones(4))
    with pytest.raises(RuntimeError, match="must have one shape and dtype"):
        add_rms_norm(x, x.bfloat16())
    with pytest.raises(TypeError, match=r"not torch\.int32"):
        rms_norm(x.int(), (8,))


@pytest.mark.parametrize("shapes", ["5,300", f"2,{LONG}"])
def test_no_finding(shapes: str) -> None:
    case = Case(eager=reference_norm, hand=norm, inputs="bf16[5,300],bf16[300]")
    found = check(case, shapes=shapes, dtypes="bf16")
    assert not found.findings and all(each.ok for each in found.cases)


def gradients(x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        leaves = x.detach().requires_grad_(), weight.detach().requires_grad_()
        return torch.autograd.grad(norm(*leaves), leaves, dy)


def reference_gradients(x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        leaves = x.detach().requires_grad_(), weight.detach().requires_grad_()
        return torch.autograd.grad(reference_norm(*leaves), leaves, dy)


@pytest.mark.parametrize("shapes", ["5,300", "9,5000"])
def test_no_finding_in_gradients(shapes: str) -> None:
    case = Case(eager=reference_gradients, hand=gradients, inputs="bf16[5,300],bf16[300],bf16[5,300]")
    found = check(case, shapes=shapes, dtypes="bf16")
    assert not found.findings and all(each.ok for each in found.cases)
