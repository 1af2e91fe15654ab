"""Element by element operators of the hand-written library on a GPU: numbers and gradients against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.gpu.drawn import DEVICE, DTYPES, draw, draw_integers
from tests.kernels_library.against_float64 import assert_near_float64
from tilesight.kernels import add, add_relu, dropout, embedding, geglu, rope, swiglu, transpose

Function = Callable[..., Any]
SHAPES = [(0, 7), (3, 1), (1000, 5), (4096, 1025), (33, 16384), (3, 1_000_003)]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def geglu_by_tanh(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return geglu(gate, up, "tanh")


PAIRS = {
    "add": (add, torch.add),
    "add_relu": (add_relu, lambda x, y: torch.relu(x + y)),
    "swiglu": (swiglu, lambda gate, up: F.silu(gate) * up),
    "geglu": (geglu, lambda gate, up: F.gelu(gate) * up),
    "geglu_tanh": (geglu_by_tanh, lambda gate, up: F.gelu(gate, approximate="tanh") * up),
}


@every_dtype
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_two_tensors(name: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    inputs = [draw(shape, dtype), draw(shape, dtype, 1)]
    assert_near_float64(*PAIRS[name], inputs, grads=[draw(shape, dtype, 7)])


@every_dtype
@pytest.mark.parametrize("name", PAIRS)
def test_the_halves_of_one_tensor(name: str, dtype: torch.dtype) -> None:
    """Taken where they lie: rows of 2 × 1000 elements."""
    hand, reference = PAIRS[name]
    x, dy = draw((300, 2000), dtype), draw((300, 1000), dtype, 7)
    assert_near_float64(lambda t: hand(*t.chunk(2, -1)), lambda t: reference(*t.chunk(2, -1)), [x], grads=[dy])


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """Pairs as complex numbers, times exp(i · angle)."""
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    pairs = a * cos - b * sin, b * cos + a * sin
    return torch.stack(pairs, -1).flatten(-2) if interleaved else torch.cat(pairs, -1)


@every_dtype
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("shape", [(2, 300, 8, 128), (1, 4097, 3, 64), (3, 5, 1, 6)], ids=str)
def test_rope(shape: tuple[int, int, int, int], interleaved: bool, dtype: torch.dtype) -> None:
    """[batch, heads, tokens, dim] seen in [batch, tokens, heads, dim], as models have it."""
    _, tokens, _, dim = shape
    angles = draw((tokens, dim // 2), torch.float32, 5)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)

    def hand(x: torch.Tensor) -> torch.Tensor:
        return rope(x.transpose(1, 2), cos, sin, interleaved)

    def reference(x: torch.Tensor) -> torch.Tensor:
        return turned(x.transpose(1, 2), cos.to(x.dtype), sin.to(x.dtype), interleaved)

    grads = draw(shape, dtype, 7).transpose(1, 2)
    assert_near_float64(hand, reference, [draw(shape, dtype)], grads=[grads])


@every_dtype
@pytest.mark.parametrize(
    ("shape", "dims"),
    [((1025, 4097), (0, 1)), ((1, 131072), (0, 1)), ((131072, 3), (0, 1)), ((5, 300, 7, 129), (1, 2)),
     ((5, 300, 7, 129), (0, 3)), ((0, 7), (0, 1))],
    ids=str,
)  # fmt: skip
def test_transpose(shape: tuple[int, ...], dims: tuple[int, int], dtype: torch.dtype) -> None:
    """Bit by bit, forward and back."""
    x = draw(shape, dtype).requires_grad_()
    y = transpose(x, *dims)
    assert y.is_contiguous() and torch.equal(y, x.transpose(*dims))
    dy = draw(tuple(y.shape), dtype, 7)
    y.backward(dy)
    assert x.grad is not None and torch.equal(x.grad, dy.transpose(*dims))


@every_dtype
@pytest.mark.parametrize("shape", [(3, 1009), (200, 5003)], ids=str)
def test_dropout_drops_what_the_engine_drops(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """The mask is the seed's, not the device's, and the gradient has the same one."""
    kept = (dropout(torch.ones(shape), 0.25, seed=2**40 + 5) != 0).to(DEVICE)
    assert_near_float64(
        lambda x: dropout(x, 0.25, seed=2**40 + 5), lambda x: x * kept / 0.75, [draw(shape, dtype)],
        grads=[draw(shape, dtype, 7)],
    )  # fmt: skip


def test_dropout_draws_a_new_mask_each_time_and_the_share_is_right() -> None:
    x = torch.ones(1 << 24, device=DEVICE)
    torch.manual_seed(0)
    first, second = (dropout(x, 0.1) != 0 for _ in range(2))
    assert abs(float((first & second).double().mean()) - 0.81) < 6 * (0.81 * 0.19 / x.numel()) ** 0.5
    torch.manual_seed(0)
    assert torch.equal(dropout(x, 0.1) != 0, first)


@every_dtype
@pytest.mark.parametrize(
    ("count", "rows", "columns"), [(5000, 40, 129), (16384, 131072, 512), (3, 7, 16384), (0, 7, 5), (70000, 1, 64)]
)
def test_embedding(count: int, rows: int, columns: int, dtype: torch.dtype) -> None:
    index = draw_integers((count,), rows)
    inputs, grads = [draw((rows, columns), dtype)], [draw((count, columns), dtype, 7)]
    assert_near_float64(lambda w: embedding(index, w), lambda w: F.embedding(index, w), inputs, grads=grads)


def test_the_gradient_of_an_embedding_is_the_same_every_time() -> None:
    index, dy = draw_integers((100_000,), 50), draw((100_000, 256), torch.bfloat16, 7)
    weight = draw((50, 256), torch.bfloat16).requires_grad_()
    first, *others = (torch.autograd.grad(embedding(index, weight), weight, dy)[0] for _ in range(20))
    assert all(torch.equal(first, each) for each in others)
