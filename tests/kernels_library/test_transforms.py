"""The library under torch.func: vmap, grad and jacrev give what PyTorch's own operators give."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.kernels_library.against_float64 import draw
from tilesight import kernels
from tilesight.capture.transforms import is_transformed
from tilesight.kernels import references

TARGET = torch.tensor([1, -100, 4])
ANGLES = draw((3, 4), torch.float32, 9)
WEIGHT = draw((8,), torch.float32, 8)
MATRIX = draw((5, 8), torch.float32, 7)
FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "add": lambda x: kernels.add(x, 2.0, alpha=3),
    "add_relu": lambda x: kernels.add_relu(x, x * 2),
    "softmax": lambda x: kernels.softmax(x, 0),
    "log_softmax": kernels.log_softmax,
    "rms_norm": lambda x: kernels.rms_norm(x, (8,), WEIGHT, 1e-5),
    "add_rms_norm": lambda x: kernels.add_rms_norm(x, x * 2, WEIGHT)[0],
    "layer_norm": lambda x: kernels.layer_norm(x, (8,), WEIGHT, WEIGHT),
    "swiglu": lambda x: kernels.swiglu(x, x + 1),
    "geglu": lambda x: kernels.geglu(x, x + 1, "tanh"),
    "rope": lambda x: kernels.rope(x, ANGLES.cos(), ANGLES.sin()),
    "rope interleaved": lambda x: kernels.rope(x, ANGLES.cos(), ANGLES.sin(), interleaved=True),
    "cross_entropy": lambda x: kernels.cross_entropy(x, TARGET, z_loss=0.1),
    "cross_entropy none": lambda x: kernels.cross_entropy(x, TARGET, reduction="none", label_smoothing=0.1),
    "linear_cross_entropy": lambda x: kernels.linear_cross_entropy(x, MATRIX, TARGET, reduction="sum"),
    "sum": lambda x: kernels.sum(x, 0),
    "max": lambda x: kernels.max(x, 0)[0],
    "cumsum": lambda x: kernels.cumsum(x, 0),
    "matmul": lambda x: kernels.matmul(x, MATRIX.t(), bias=WEIGHT[:5], activation="gelu", residual=x[:, :5], scale=2.0),
    "matmul gated": lambda x: kernels.matmul(x, MATRIX[:4].t(), activation="swiglu"),
    "attention": lambda x: kernels.attention(x, x + 1, x * 2, is_causal=True),
    "attention window": lambda x: kernels.attention(x, x + 1, x * 2, window=(1, 0), scale=0.5),
    "embedding": lambda x: kernels.embedding(torch.tensor([2, 0, 2]), x),
    "transpose": lambda x: kernels.transpose(x, 0, 1),
}


@pytest.mark.parametrize("name", sorted(set(kernels.__all__) - {"patch"}))
def test_every_function_of_the_library_has_a_reference(name: str) -> None:
    """By its own name, with its own arguments, and the function asks for it."""
    function, reference = getattr(kernels, name), getattr(references, name)
    assert function.__wrapped__.__module__ == f"tilesight.kernels.{function.__module__.rpartition('.')[2]}"
    assert inspect.signature(function).parameters.keys() == inspect.signature(reference).parameters.keys()


def test_a_transformation_is_seen_from_inside() -> None:
    """Through torch's own stack of transformations: a torch that keeps it elsewhere fails here."""
    seen: list[bool] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(is_transformed())
        return x.sum()

    torch.vmap(look)(torch.zeros(2, 3))
    torch.func.grad(look)(torch.zeros(3))
    look(torch.zeros(3))
    assert seen == [True, True, False]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_numbers_and_gradients_as_without_a_transformation(name: str) -> None:
    function = FUNCTIONS[name]
    xs = draw((2, 3, 8), torch.float32, 1)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return (function(x).float() * 3).square().sum()

    torch.testing.assert_close(torch.vmap(function)(xs), torch.stack([function(x) for x in xs]))
    leaves = [x.clone().requires_grad_() for x in xs]
    wanted = torch.stack([torch.autograd.grad(loss(x), x)[0] for x in leaves])
    atol = 1e-6 * max(1, wanted.abs().max().item())
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(xs), wanted, rtol=1e-5, atol=atol)
    outside = xs.clone().requires_grad_()
    torch.vmap(loss)(outside).sum().backward()
    torch.testing.assert_close(outside.grad, wanted, rtol=1e-5, atol=atol)


def test_a_jacobian() -> None:
    x = draw((7,), torch.float32, 2)
    torch.testing.assert_close(
        torch.func.jacrev(kernels.softmax)(x), torch.func.jacrev(lambda t: torch.softmax(t, -1))(x)
    )


def test_decoding_and_packed_sequences_are_what_the_kernels_give() -> None:
    query, keys, values = (
        draw((3, 6, 16), torch.float32),
        draw((7, 4, 2, 16), torch.float32, 1),
        draw((7, 4, 2, 8), torch.float32, 2),
    )
    given = (query, keys, values, torch.tensor([[1, 2, 3], [4, 0, 0], [5, 6, 1]]), torch.tensor([10, 0, 12]))
    torch.testing.assert_close(references.decode_attention(*given), kernels.decode_attention(*given))
    x = draw((1, 2, 12, 16), torch.float32, 3)
    starts = torch.tensor([0, 5, 5, 10], dtype=torch.int32)
    packed = (kernels.attention, references.attention)
    ours, theirs = (function(x, x, x, is_causal=True, cu_seqlens=starts) for function in packed)
    torch.testing.assert_close(ours, theirs)


def test_argmax_and_dropout() -> None:
    xs = draw((4, 50), torch.float32, 3)
    assert torch.equal(torch.vmap(kernels.argmax)(xs), xs.argmax(-1))
    dropped = torch.vmap(lambda x: kernels.dropout(x, 0.5), randomness="different")(xs)
    assert torch.equal(dropped[dropped != 0], 2 * xs[dropped != 0]) and 0 < int((dropped == 0).sum()) < 200
    with pytest.raises(RuntimeError, match=r"a seed can't be replayed under torch\.func"):
        torch.vmap(lambda x: kernels.dropout(x, 0.5, seed=1), randomness="same")(xs)
