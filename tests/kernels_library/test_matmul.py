"""Matrix products of the hand-written library, on the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from tilesight.kernels import matmul, matmul_launch
from tilesight.kernels.matmul_plan import BITS_16, FLOAT32, MatmulPlan, plan_matmul

Function = Callable[..., Any]
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
EACH_DTYPE = pytest.mark.parametrize("dtype", DTYPES, ids=str)
ACTIVATIONS: dict[str | None, Callable[[torch.Tensor], torch.Tensor]] = {
    None: lambda z: z,
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "swiglu": lambda z: F.silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
    "geglu": lambda z: F.gelu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
}
EACH_ACTIVATION = pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)


def operands(rows: int, k: int, columns: int, dtype: torch.dtype) -> list[torch.Tensor]:
    return [draw((rows, k), dtype), draw((k, columns), dtype, 1)]


def judged(got: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """A plain product within one rounding to its dtype and one of each of its additions."""
    wanted = torch.matmul(a.double(), b.double())
    sums = torch.float64 if a.dtype == torch.float64 else torch.float32
    magnitude = torch.matmul(a.double().abs(), b.double().abs())
    bound = torch.finfo(got.dtype).eps * wanted.abs() + a.shape[-1] * torch.finfo(sums).eps * magnitude
    assert got.shape == wanted.shape
    assert bool(((got.double() - wanted).abs() <= bound).all())


@EACH_DTYPE
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 7, 5), (70, 130, 33), (1, 300, 65), (129, 16, 1)], ids=str)
def test_numbers_and_gradients(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    assert_near_float64(matmul, torch.matmul, operands(*sizes, dtype))


@pytest.mark.parametrize("sizes", [(0, 3, 5), (3, 0, 5), (3, 5, 0), (0, 0, 0)], ids=str)
def test_sizes_of_zero(sizes: tuple[int, int, int]) -> None:
    a, b = operands(*sizes, torch.float32)
    assert torch.equal(matmul(a, b), torch.matmul(a, b))
    assert_near_float64(matmul, torch.matmul, [a, b])
    bias = draw(sizes[2:], torch.float32, 2)
    torch.testing.assert_close(matmul(a, b, bias=bias, activation="gelu"), F.gelu(torch.matmul(a, b) + bias))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5,), (5,)),
        ((5,), (5, 3)),
        ((4, 5), (5,)),
        ((2, 3, 5), (5,)),
        ((5,), (2, 5, 3)),
        ((2, 3, 5), (5, 4)),
        ((2, 3, 5), (2, 5, 4)),
        ((3, 5), (2, 5, 4)),
        ((7, 1, 3, 5), (2, 5, 4)),
        ((1, 3, 5), (2, 5, 4)),
        ((0, 3, 5), (0, 5, 4)),
    ],
    ids=str,
)
def test_shapes_as_torch_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    inputs = [draw(left, torch.float32), draw(right, torch.float32, 1)]
    assert matmul(*inputs).shape == torch.matmul(*inputs).shape
    assert_near_float64(matmul, torch.matmul, inputs)


@EACH_DTYPE
def test_transposed_and_strided_operands(dtype: torch.dtype) -> None:
    a, b = draw((60, 40), dtype), draw((40, 50), dtype, 1)
    for left in (
        a,
        a.t().contiguous().t(),
        draw((60, 80), dtype)[:, ::2],
        draw((120, 40), dtype)[::2],
        a[:1].expand(60, -1),
    ):
        for right in (b, b.t().contiguous().t(), draw((40, 100), dtype)[:, ::2], b[:, :1].expand(-1, 50)):
            judged(matmul(left, right), left, right)


PLANS = {
    "pointers": MatmulPlan(64, 64, 32, 4, 3),
    "descriptors": MatmulPlan(64, 64, 32, 4, 3, is_tma=True, subtiles=2, group=2),
    "in four pieces": MatmulPlan(128, 128, 32, 4, 2, is_tma=True),
    "shared K": MatmulPlan(64, 32, 32, 4, 3, splits=3),
    "shared K by descriptors": MatmulPlan(32, 64, 32, 4, 3, is_tma=True, splits=2, is_persistent=False),
}


@pytest.fixture(params=PLANS.values(), ids=list(PLANS))
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MatmulPlan:
    """A plan that every product of the test goes by."""
    monkeypatch.setattr(matmul_launch, "plan_of", lambda a, b: request.param)
    return request.param


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("batches", [1, 2])
def test_every_way_of_a_plan(batches: int) -> None:
    """Descriptors and pointers, batches and one matrix, either axis dense, K shared; sizes that no tile divides."""
    rows, k, columns = 136, 200, 152
    for turns_a, turns_b in ((False, False), (True, False), (False, True)):
        a = draw((batches, k, rows) if turns_a else (batches, rows, k), torch.bfloat16)
        b = draw((batches, columns, k) if turns_b else (batches, k, columns), torch.bfloat16, 1)
        a, b = a.transpose(1, 2) if turns_a else a, b.transpose(1, 2) if turns_b else b
        judged(matmul(a, b), a, b)
        judged(matmul(a[:1], b), a[:1], b)


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("batches", [1, 2])
def test_everything_behind_a_product_in_every_plan(batches: int) -> None:
    rows, k, columns = 72, 104, 80
    a, b = draw((batches, rows, k), torch.float16) / 10, draw((k, columns), torch.float16, 1)
    residual, bias = draw((rows, 40), torch.float16, 2), draw((columns,), torch.float16, 3)

    def hand(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return matmul(a, b, bias=bias, activation="swiglu", residual=residual, scale=0.5)

    def reference(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return ACTIVATIONS["swiglu"](0.5 * torch.matmul(a, b) + bias) + residual

    assert_near_float64(hand, reference, [a, b, bias, residual])
    batched = b.expand(batches, -1, -1)
    torch.testing.assert_close(hand(a, batched, bias, residual), hand(a, b, bias, residual), rtol=2e-3, atol=2e-3)


def test_more_tiles_than_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of a persistent grid goes on to further tiles."""
    a, b = operands(16 * 140, 8, 16, torch.float32)
    plan = replace(FLOAT32[-1], block_n=16, is_persistent=True)
    assert plan.tiles(1, 16 * 140, 16) == 140
    monkeypatch.setattr(matmul_launch, "plan_of", lambda a, b: plan)
    judged(matmul(a, b), a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@EACH_ACTIVATION
def test_epilogues(activation: str | None, dtype: torch.dtype) -> None:
    columns = 10 if activation in ("swiglu", "geglu") else 5
    inputs = [
        draw((2, 3, 4), dtype) / 2,
        draw((4, columns), dtype, 1),
        draw((columns,), dtype, 2),
        draw((3, 5), dtype, 3),
    ]

    def hand(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return matmul(x, w, bias=bias, activation=activation, residual=residual, scale=0.75)

    def reference(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return ACTIVATIONS[activation](0.75 * torch.matmul(x, w) + bias) + residual

    assert_near_float64(hand, reference, inputs)
    got = hand(*inputs)
    torch.testing.assert_close(got.double(), reference(*(each.double() for each in inputs)), rtol=0.02, atol=0.02)


def test_scales_of_rows_and_columns_and_another_dtype() -> None:
    a, b = operands(6, 9, 4, torch.bfloat16)
    rows, columns = draw((6, 1), torch.float32, 3), draw((1, 4), torch.float32, 4)
    product = torch.matmul(a.double(), b.double())
    for scale, factor in ((rows, rows), ((rows, columns), rows * columns), (torch.tensor(3.0), 3.0)):
        got = matmul(a, b, scale=scale, out_dtype=torch.float32)
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), product * factor, rtol=1e-5, atol=1e-5)
    leaves = [each.clone().requires_grad_() for each in (a, b)]
    matmul(*leaves, scale=(rows, columns), out_dtype=torch.float32).sum().backward()
    wanted = torch.matmul((rows * columns).double(), b.double().t())
    torch.testing.assert_close(leaves[0].grad.double(), wanted, rtol=0.03, atol=0.03)  # type: ignore[union-attr]


FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("left", FLOAT8, ids=str)
@pytest.mark.parametrize("right", FLOAT8, ids=str)
def test_float8(left: torch.dtype, right: torch.dtype) -> None:
    """Of either kind, one scale or one a row and a column, the right operand's columns or rows dense."""
    a, b = draw((70, 260), left), draw((50, 260), right, 1).t()
    exact = torch.matmul(a.float().double(), b.float().double())
    scales = draw((70, 1), torch.float32, 2).abs(), draw((1, 50), torch.float32, 3).abs()
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 8e-3), (torch.float16, 1e-3)):
        got = matmul(a, b, scale=scales, out_dtype=dtype)
        assert got.dtype == dtype
        torch.testing.assert_close(got.double(), exact * scales[0] * scales[1], rtol=tolerance, atol=1e-4)
    one = torch.tensor(0.5), torch.tensor(0.25)
    got = matmul(a, b.contiguous(), scale=one, bias=scales[1][0], activation="relu")
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), (exact / 8 + scales[1]).relu(), rtol=8e-3, atol=1e-4)


def test_float8_as_scaled_mm() -> None:
    a, b = draw((32, 64), FLOAT8[0]), draw((48, 64), FLOAT8[0], 1).t()
    scales = torch.tensor(0.5), torch.tensor(3.0)
    wanted = torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16)  # pyright: ignore[reportPrivateImportUsage]
    torch.testing.assert_close(matmul(a, b, scale=scales), wanted, rtol=8e-3, atol=1e-3)


def test_float8_has_no_gradient_and_no_other_partner() -> None:
    a = draw((4, 4), FLOAT8[0])
    with pytest.raises(RuntimeError, match="same dtype"):
        matmul(a, a.bfloat16())
    with pytest.raises(RuntimeError, match="no gradient of float8"):
        matmul(a.clone().requires_grad_(), a)
    bias = torch.zeros(4, requires_grad=True)
    matmul(a, a, bias=bias).sum().backward()
    torch.testing.assert_close(bias.grad, torch.full((4,), 4.0))


def test_only_what_is_wanted() -> None:
    a, b = operands(5, 6, 7, torch.float32)
    bias, residual = torch.zeros(7, requires_grad=True), torch.zeros(7, requires_grad=True)
    matmul(a, b, bias=bias, activation="silu", residual=residual).sum().backward()
    z = torch.matmul(a, b).requires_grad_()
    torch.testing.assert_close(bias.grad, torch.autograd.grad(F.silu(z).sum(), z)[0].sum(0))
    torch.testing.assert_close(residual.grad, torch.full((7,), 5.0))


def test_nan_and_infinity_stay_in_their_rows_and_columns() -> None:
    a, b = operands(70, 40, 50, torch.float32)
    a[3, 7], b[2, 49], a[69, 0] = float("nan"), float("inf"), float("-inf")
    torch.testing.assert_close(matmul(a, b), torch.matmul(a, b), equal_nan=True, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        matmul(a, b, activation="relu"), torch.matmul(a, b).relu(), equal_nan=True, rtol=1e-4, atol=1e-5
    )


def test_tf32_where_torch_says_so() -> None:
    a, b = operands(64, 256, 64, torch.float32)
    exact = torch.matmul(a.double(), b.double())
    before = torch.get_float32_matmul_precision()
    found: list[float] = []
    try:
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            found.append((matmul(a, b).double() - exact).abs().max().item())
    finally:
        torch.set_float32_matmul_precision(before)
    assert found[0] < 1e-4 < 1e-3 < found[1] < 0.2


@pytest.mark.parametrize("activation", [None, "gelu", "swiglu"])
def test_gradcheck(activation: str | None) -> None:
    shapes: Sequence[tuple[int, ...]] = ((2, 3), (3, 4), (4,))
    inputs = [draw(shape, torch.float64, seed).requires_grad_() for seed, shape in enumerate(shapes)]

    def total(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return matmul(a, b, bias=bias, activation=activation, scale=1.5)

    assert torch.autograd.gradcheck(total, inputs)
    if activation is None:
        assert torch.autograd.gradgradcheck(total, inputs)


def test_the_operators_pass_opcheck() -> None:
    a, b = draw((2, 3, 4), torch.float32), draw((2, 4, 6), torch.float32, 1)
    operator = torch.ops.tilesight.matmul.default
    torch.library.opcheck(operator, (a, b, None, None, None, None, 1.0, 0, False, False, torch.float32))
    full = (torch.ones(6), torch.ones(2, 3, 3), torch.ones(1), torch.ones(6), 2.0, 2, True, True, torch.float32)
    torch.library.opcheck(operator, (a, b, *full))
    backward = torch.ops.tilesight.matmul_activation_backward.default
    torch.library.opcheck(backward, (torch.ones(2, 3, 3), torch.ones(2, 3, 6), 2, True))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    a, b = operands(5, 6, 8, torch.float32)
    assert_compiled_whole(matmul, [a, b])
    inputs = [a, b, draw((8,), torch.float32, 2), draw((5, 4), torch.float32, 3)]
    assert_compiled_whole(lambda a, b, bias, rest: matmul(a, b, bias=bias, activation="swiglu", residual=rest), inputs)


def test_autocast() -> None:
    a, b = operands(5, 6, 8, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        got = matmul(a, b)
    assert got.dtype == torch.bfloat16
    judged(got, a.bfloat16(), b.bfloat16())


def test_bad_input() -> None:
    x, w = torch.zeros(2, 3), torch.zeros(3, 4)
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied \(\[2, 3\] and \[2, 3\]\)"):
        matmul(x, x)
    with pytest.raises(RuntimeError, match="expected both operands to have the same dtype"):
        matmul(x, w.bfloat16())
    with pytest.raises(RuntimeError, match="at least 1D"):
        matmul(x, torch.zeros(()))
    with pytest.raises(TypeError, match=r"not torch\.int32"):
        matmul(x.int(), w.int())
    with pytest.raises(RuntimeError, match="expected all tensors on one device, got cpu and meta"):
        matmul(x, w.to("meta"))
    with pytest.raises(RuntimeError, match=r"broadcast|match"):
        matmul(torch.zeros(2, 2, 3), torch.zeros(3, 3, 4))
    with pytest.raises(RuntimeError, match=r"bias must be \[4\] for other of \[3, 4\], got \[3\]"):
        matmul(x, w, bias=torch.zeros(3))
    with pytest.raises(RuntimeError, match=r"residual of \[3, 4\] does not broadcast"):
        matmul(x, w, residual=torch.zeros(3, 4))
    with pytest.raises(ValueError, match="activation must be one of"):
        matmul(x, w, activation="tanh")
    with pytest.raises(ValueError, match="swiglu needs an even number of columns"):
        matmul(x, w[:, :3], activation="swiglu")
    with pytest.raises(RuntimeError, match=r"expected a scale of one number or \[2, 1\], got \[3\]"):
        matmul(x, w, scale=torch.zeros(3))
    with pytest.raises(RuntimeError, match=r"expected a scale of torch\.float32 on cpu"):
        matmul(x, w, scale=torch.zeros(1, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="no gradient of a scale"):
        matmul(x, w, scale=torch.ones(1, requires_grad=True))
    with pytest.raises(TypeError, match=r"gives float16, bfloat16 or float32"):
        matmul(x, w, out_dtype=torch.float64)


def gradients_of(function: Function) -> Function:
    def gradients(a: torch.Tensor, b: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [each.detach().requires_grad_() for each in (a, b)]
            return torch.autograd.grad(function(*leaves), leaves, dy)

    return gradients


def test_no_finding() -> None:
    assert_no_finding(Case(eager=torch.matmul, hand=matmul, inputs="bf16[9,20],bf16[20,10]"), shapes="9,20")
    given = *operands(9, 20, 10, torch.bfloat16), draw((9, 5), torch.bfloat16, 2)

    def hand(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return matmul(a, b, activation="swiglu")

    def eager(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ACTIVATIONS["swiglu"](torch.matmul(a, b))

    assert_no_finding(Case(eager=gradients_of(eager), hand=gradients_of(hand), inputs=lambda: given))


def test_plans_fill_an_h200() -> None:
    """Large products take the largest tile; few tiles share K; nothing is split that fills the GPU."""
    assert plan_for(8192, 8192, 8192) == BITS_16[0]
    assert plan_for(16, 128, 65536).splits > 16
    assert plan_for(16, 131072, 4096).splits == 1
    assert plan_for(64, 64, 64).splits == 1


def plan_for(rows: int, columns: int, k: int) -> MatmulPlan:
    return plan_matmul(BITS_16, 1, rows, columns, k)
