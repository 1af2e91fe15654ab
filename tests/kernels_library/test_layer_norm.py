"""LayerNorm of the hand-written library, on the engine."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.kernels_library.against_float64 import (
    assert_compiled_whole,
    assert_near_float64,
    assert_no_finding,
    draw,
    dynamo_instantiates_functions,
    with_gradients,
)
from tilesight import Case
from tilesight.capture.numerics import judge
from tilesight.kernels import layer_norm
from tilesight.kernels.row_plan import plan_rows

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SHARED = 2500
"""Columns of a few rows, each of which several programs share, and the last of them has a tail."""


def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return layer_norm(x, weight.shape, weight, bias)


def reference_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, weight.shape, weight, bias)


def inputs_of(shape: tuple[int, ...], dtype: torch.dtype, axes: int = 1) -> list[torch.Tensor]:
    return [draw(shape, dtype), draw(shape[-axes:], dtype, 1), draw(shape[-axes:], dtype, 2)]


def test_few_long_rows_are_shared() -> None:
    assert plan_rows(3, SHARED).parts == 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (0, 7), (5, 0), (40, 1000), (2, 3, 129), (3, SHARED)], ids=str)
def test_numbers_and_gradients(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    assert_near_float64(norm, reference_norm, inputs_of(shape, dtype))


@pytest.mark.parametrize("columns", [40, SHARED])
def test_weight_and_bias_are_optional(columns: int) -> None:
    x, weight, bias = inputs_of((3, columns), torch.float32)
    shape = (columns,)
    assert_near_float64(lambda t: layer_norm(t, shape), lambda t: F.layer_norm(t, shape), [x])
    assert_near_float64(lambda t, w: layer_norm(t, shape, w), lambda t, w: F.layer_norm(t, shape, w), [x, weight])
    assert_near_float64(
        lambda t, b: layer_norm(t, shape, bias=b), lambda t, b: F.layer_norm(t, shape, bias=b), [x, bias]
    )


def test_the_last_two_axes() -> None:
    assert_near_float64(norm, reference_norm, inputs_of((3, 4, 5), torch.float32, axes=2))


@pytest.mark.parametrize("columns", [300, SHARED])
def test_a_mean_far_from_zero(columns: int) -> None:
    """The mean's own rounding shows, as in torch; mean(x²) − mean² of these would be nothing but rounding."""
    x, weight, bias = inputs_of((3, columns), torch.float32)
    x += 4096
    verdict = judge(norm(x, weight, bias), [reference_norm(x.double(), weight.double(), bias.double())])
    assert verdict.max_error < 1e-3


def test_one_column() -> None:
    """Nothing is left without the mean, so the reference's gradients are 0 or its own rounding."""
    inputs = inputs_of((3, 1), torch.float32)
    y, *grads = with_gradients(norm, inputs, [torch.ones(3, 1)])
    assert torch.equal(y, inputs[2].expand(3, 1))
    assert [float(each.abs().max()) for each in grads] == [0, 0, 3]


@pytest.mark.parametrize("columns", [50, SHARED])
def test_strided_rows(columns: int) -> None:
    x = draw((4, 2 * columns), torch.float32)
    for view in (x[:, :columns], x[::2], x[:, ::2], x[:1].expand(3, -1)):
        torch.testing.assert_close(layer_norm(view, view.shape[-1:]), F.layer_norm(view, view.shape[-1:]))


@pytest.mark.parametrize("columns", [300, SHARED])
def test_constant_rows_nan_and_infinity_stay_in_their_rows(columns: int) -> None:
    x = draw((4, columns), torch.float32)
    x[0, 3], x[1, 4], x[2] = float("nan"), float("inf"), 7
    torch.testing.assert_close(layer_norm(x, (columns,)), F.layer_norm(x, (columns,)), equal_nan=True)


def test_more_rows_than_groups_of_shared_rows() -> None:
    """Programs that share rows go on to the next one while their siblings are still at the last."""
    assert_near_float64(norm, reference_norm, inputs_of((19, 2048), torch.float32))


def test_gradcheck() -> None:
    inputs = [each.requires_grad_() for each in inputs_of((3, 5), torch.float64)]
    assert torch.autograd.gradcheck(norm, inputs)


def test_the_operators_pass_opcheck() -> None:
    x, weight, bias = inputs_of((3, 20), torch.float32)
    forward, backward = torch.ops.tilesight.layer_norm_forward.default, torch.ops.tilesight.layer_norm_backward.default
    torch.library.opcheck(forward, (x, weight, bias, 20, 1e-5))
    torch.library.opcheck(forward, (x, None, None, 20, 1e-5))
    torch.library.opcheck(backward, (x, x, weight, bias, torch.zeros(3), torch.ones(3)))
    torch.library.opcheck(backward, (x, x, None, None, torch.zeros(3), torch.ones(3)))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    assert_compiled_whole(norm, inputs_of((3, 9), torch.float32))


def test_bad_input() -> None:
    x = torch.zeros(2, 8)
    with pytest.raises(RuntimeError, match=r"normalized_shape is \[7\], the input's shape \[2, 8\] must end with it"):
        layer_norm(x, (7,))
    with pytest.raises(RuntimeError, match=r"bias has shape \[4\], expected normalized_shape \[8\]"):
        layer_norm(x, (8,), torch.ones(8), torch.ones(4))
    with pytest.raises(TypeError, match=r"layer_norm takes .* not torch\.int32"):
        layer_norm(x.int(), (8,))


@pytest.mark.parametrize("shapes", ["5,300", f"2,{SHARED}"])
def test_no_finding(shapes: str) -> None:
    case = Case(eager=reference_norm, hand=norm, inputs="bf16[5,300],bf16[300],bf16[300]")
    assert_no_finding(case, shapes=shapes)


def gradients(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        leaves = [each.detach().requires_grad_() for each in (x, weight, bias)]
        return torch.autograd.grad(norm(*leaves), leaves, dy)


def reference_gradients(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, dy: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        leaves = [each.detach().requires_grad_() for each in (x, weight, bias)]
        return torch.autograd.grad(reference_norm(*leaves), leaves, dy)


@pytest.mark.parametrize("shapes", ["5,300", "2,1100"])
def test_no_finding_in_gradients(shapes: str) -> None:
    inputs = "bf16[5,300],bf16[300],bf16[300],bf16[5,300]"
    case = Case(eager=reference_gradients, hand=gradients, inputs=inputs)
    assert_no_finding(case, shapes=shapes)
