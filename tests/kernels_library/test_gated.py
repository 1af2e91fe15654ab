"""SwiGLU and GeGLU of the hand-written library, on the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.kernels_library.against_float64 import (
    assert_compiled_whole,
    assert_near_float64,
    assert_no_finding,
    draw,
    dynamo_instantiates_functions,
)
from tilesight import Case
from tilesight.kernels import geglu, swiglu

Function = Callable[..., Any]
FUNCTIONS = {
    "swiglu": (swiglu, lambda gate, up: F.silu(gate) * up),
    "geglu": (geglu, lambda gate, up: F.gelu(gate) * up),
    "tanh": (lambda a, b: geglu(a, b, "tanh"), lambda gate, up: F.gelu(gate, approximate="tanh") * up),
}
EACH = pytest.mark.parametrize(("function", "reference"), FUNCTIONS.values(), ids=FUNCTIONS)
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0, 7), (5, 0), (2, 3, 129), (3, 4099)], ids=str)
@EACH
def test_numbers_and_gradients(
    function: Function, reference: Function, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    assert_near_float64(function, reference, [2 * draw(shape, dtype), draw(shape, dtype, 1)])


@EACH
def test_halves_of_one_projection_and_other_strides(function: Function, reference: Function) -> None:
    both = draw((6, 5000), torch.float32)
    columns = both[:, ::2]
    for gate, up in (both.chunk(2, -1), (both[::2], both[1::2]), (columns, columns), (both[:1].expand(6, -1), both)):
        torch.testing.assert_close(function(gate, up), reference(gate, up))
    assert_near_float64(
        lambda x: function(*x.chunk(2, -1)), lambda x: reference(*x.chunk(2, -1)), [draw((3, 40), torch.float32)]
    )


@EACH
def test_huge_gates_nan_and_infinities(function: Function, reference: Function) -> None:
    """Huge ones are shut or open without NaN, in gradients too; infinities give what torch gives on a GPU."""
    huge = torch.tensor([-1e30, -1e4, -90.0, -20.0, 0.0, 20.0, 90.0, 1e4, 1e15])
    assert_near_float64(function, reference, [huge / 1e15, torch.ones(9)], grads=[torch.ones(9)])
    leaf = huge.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(function(leaf, torch.ones(9)).sum(), leaf)
    torch.testing.assert_close(slopes, torch.tensor([0.0] * 4 + [0.5] + [1.0] * 4), atol=1e-6, rtol=0)
    odd = torch.tensor([float("nan"), float("-inf"), 1.0, -2.0])
    torch.testing.assert_close(function(odd, odd.flip(0)), reference(odd, odd.flip(0)), equal_nan=True)
    infinite = torch.full((2,), float("inf"))
    assert torch.equal(function(infinite, torch.tensor([1.0, -1.0])), torch.tensor([float("inf"), float("-inf")]))


@EACH
def test_gradcheck(function: Function, reference: Function) -> None:
    inputs = [draw((3, 5), torch.float64, seed).requires_grad_() for seed in (0, 1)]
    assert torch.autograd.gradcheck(function, inputs)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_the_operators_pass_opcheck(kind: int) -> None:
    x = draw((3, 20), torch.float32)
    torch.library.opcheck(torch.ops.tilesight.gated_forward.default, (x, x + 1, kind))
    torch.library.opcheck(torch.ops.tilesight.gated_backward.default, (x, x, x + 1, kind))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    inputs = [draw((3, 9), torch.float32, seed) for seed in (0, 1)]
    assert_compiled_whole(swiglu, inputs)
    assert_compiled_whole(lambda a, b: geglu(a, b, "tanh"), inputs)


def test_bad_input() -> None:
    x = torch.zeros(2, 8)
    with pytest.raises(RuntimeError, match=r"swiglu: gate and up must have one shape and dtype, got torch\.float32"):
        swiglu(x, x[:, :4])
    with pytest.raises(RuntimeError, match=r"torch\.float32 \[2, 8\] and torch\.bfloat16 \[2, 8\]"):
        geglu(x, x.bfloat16())
    with pytest.raises(RuntimeError, match="must be either none or tanh, got 'fast'"):
        geglu(x, x, "fast")
    with pytest.raises(TypeError, match=r"swiglu takes .* not torch\.int32"):
        swiglu(x.int(), x.int())


def gradients_of(function: Function) -> Function:
    def gradients(gate: torch.Tensor, up: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [each.detach().requires_grad_() for each in (gate, up)]
            return torch.autograd.grad(function(*leaves), leaves, dy)

    return gradients


@EACH
def test_no_finding(function: Function, reference: Function) -> None:
    assert_no_finding(Case(eager=reference, hand=function, inputs="bf16[5,500],bf16[5,500]"), shapes="5,500")
    inputs = "bf16[5,500],bf16[5,500],bf16[5,500]"
    assert_no_finding(Case(eager=gradients_of(reference), hand=gradients_of(function), inputs=inputs), shapes="5,500")
