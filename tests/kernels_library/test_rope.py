"""Rotary position embedding of the hand-written library, on the engine."""

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
from tilesight.kernels import rope

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
MIXED = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])


def angles(tokens: int, half: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [tokens, half] of the usual angles."""
    turns = torch.arange(tokens)[:, None] * 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / max(1, half))
    return turns.cos().to(dtype), turns.sin().to(dtype)


def reference_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False) -> torch.Tensor:
    """By complex numbers; cos and sin [..., dim / 2]."""
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = torch.complex(first, second) * torch.complex(cos, sin)
    both = torch.stack([turned.real, turned.imag], -1 if interleaved else -2)
    return both.reshape(x.shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(2,), (5, 6), (2, 3, 7, 64), (2, 1, 0, 8), (3, 4, 0), (2, 2, 2, 3, 10)], ids=str)
@MIXED
def test_numbers_and_gradients(shape: tuple[int, ...], dtype: torch.dtype, interleaved: bool) -> None:
    *_, tokens, dim = (1, *shape)
    cos, sin = (each[0] if len(shape) == 1 else each for each in angles(tokens, dim // 2))
    cos, sin = cos.to(dtype), sin.to(dtype)
    assert_near_float64(
        lambda x: rope(x, cos, sin, interleaved),
        lambda x: reference_rope(x, cos.double(), sin.double(), interleaved),
        [draw(shape, dtype)],
        grads=[draw(shape, dtype, 100)],
    )


@MIXED
def test_an_angle_for_each_element(interleaved: bool) -> None:
    """Both elements of a pair get their own: with the same ones twice it is the shorter form."""
    cos, sin = angles(5, 4, torch.float32)
    x = draw((2, 3, 5, 8), torch.float32)
    twice = (lambda t: t.repeat_interleave(2, -1)) if interleaved else (lambda t: torch.cat([t, t], -1))
    torch.testing.assert_close(rope(x, twice(cos), twice(sin), interleaved), rope(x, cos, sin, interleaved))
    cos, sin = draw((5, 8), torch.float32, 1), draw((5, 8), torch.float32, 2)
    leaf = draw((5, 8), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: rope(t, cos.double(), sin.double(), interleaved), (leaf,))


@MIXED
def test_strides_are_kept_and_taken_as_they_lie(interleaved: bool) -> None:
    cos, sin = angles(7, 8, torch.float32)
    x = draw((2, 7, 3, 32), torch.float32)
    views = [
        x[..., :16].transpose(1, 2),
        x[..., ::2].transpose(1, 2),
        x[:1, :, :, 16:].expand(2, -1, -1, -1).transpose(1, 2),
    ]
    for view in views:
        torch.testing.assert_close(rope(view, cos, sin, interleaved), reference_rope(view, cos, sin, interleaved))
    heads_last = x[..., :16].contiguous()
    assert rope(heads_last.transpose(1, 2), cos, sin, interleaved).transpose(1, 2).is_contiguous()
    by_token = rope(heads_last, cos.unsqueeze(-2), sin.unsqueeze(-2), interleaved)
    torch.testing.assert_close(
        by_token, reference_rope(heads_last.transpose(1, 2), cos, sin, interleaved).transpose(1, 2)
    )
    cos, sin = torch.stack([cos, cos + 1])[:, None], torch.stack([sin, sin - 1])[:, None]
    torch.testing.assert_close(rope(views[0], cos, sin), reference_rope(views[0], cos, sin))


def test_angles_may_be_wider_than_heads_and_nan_stays_in_its_pair() -> None:
    cos, sin = angles(4, 3, torch.float32)
    x = draw((4, 6), torch.bfloat16)
    assert rope(x, cos, sin).dtype == torch.bfloat16
    wide = x.float()
    wide[1, 2] = float("nan")
    assert rope(wide, cos, sin).isnan().nonzero().tolist() == [[1, 2], [1, 5]]
    assert rope(wide, cos, sin, True).isnan().nonzero().tolist() == [[1, 2], [1, 3]]


@MIXED
def test_the_operator_passes_opcheck(interleaved: bool) -> None:
    cos, sin = angles(5, 4, torch.float32)
    x = draw((2, 5, 3, 8), torch.float32).transpose(1, 2)
    torch.library.opcheck(torch.ops.tilesight.rope.default, (x, cos, sin, interleaved, False))
    torch.library.opcheck(torch.ops.tilesight.rope.default, (x, cos, sin, interleaved, True))


@dynamo_instantiates_functions
@MIXED
def test_compiled_whole(interleaved: bool) -> None:
    cos, sin = angles(5, 4, torch.float32)
    assert_compiled_whole(lambda x: rope(x, cos, sin, interleaved), [draw((3, 5, 8), torch.float32)])


def test_bad_input() -> None:
    x, half, whole = torch.zeros(2, 5, 8), torch.zeros(5, 4), torch.zeros(5, 8)
    with pytest.raises(RuntimeError, match="must have an even number of elements"):
        rope(torch.zeros(2, 3), half, half)
    with pytest.raises(RuntimeError, match=r"as many columns as x or half as many, got x \[2, 5, 8\], cos \[5, 4\]"):
        rope(x, half, whole)
    with pytest.raises(RuntimeError, match="must broadcast to those of x"):
        rope(x, half[:3], half[:3])
    with pytest.raises(RuntimeError, match="no gradient of cos and sin"):
        rope(x, half.requires_grad_(), half)
    with pytest.raises(TypeError, match=r"rope takes .* not torch\.int64"):
        rope(x.long(), whole, whole)


@MIXED
def test_no_finding(interleaved: bool) -> None:
    case = Case(
        eager=lambda x, cos, sin: reference_rope(x.double(), cos.double(), sin.double(), interleaved).to(x.dtype),
        hand=lambda x, cos, sin: rope(x, cos, sin, interleaved),
        inputs="bf16[2,3,20,24],f32[20,12],f32[20,12]",
    )
    assert_no_finding(case, shapes="2,3,20,24")
