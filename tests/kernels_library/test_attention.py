"""Attention of the hand-written library, on the engine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.kernels_library.against_float64 import (
    assert_compiled_whole,
    assert_near_float64,
    assert_no_finding,
    draw,
    dynamo_instantiates_functions,
)
from tilesight import Case, kernels
from tilesight.kernels import attention_plan
from tilesight.kernels.attention_plan import plan_forward

attention: Any = kernels.attention
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
CAUSAL = pytest.mark.parametrize("is_causal", [False, True])
Tensors = list[torch.Tensor]


def torch_attention(*args: Any, **arguments: Any) -> torch.Tensor:
    """torch's own, on its maths path."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*args, **arguments)


def inputs_of(
    heads: tuple[int, int],
    lengths: tuple[int, int],
    sizes: tuple[int, int],
    dtype: torch.dtype = torch.float32,
    batch: int = 2,
) -> Tensors:
    """Query, key and value; two numbers each: of the query and of the key, a head of the key and one of the value."""
    query = draw((batch, heads[0], lengths[0], sizes[0]), dtype, 1)
    key = draw((batch, heads[1], lengths[1], sizes[0]), dtype, 2)
    return [query, key, draw((batch, heads[1], lengths[1], sizes[1]), dtype, 3)]


def assert_right(inputs: Tensors, **arguments: Any) -> None:
    """The output and three gradients, beside torch's maths path in float64."""
    assert_near_float64(
        lambda *tensors: attention(*tensors, **arguments),
        lambda *tensors: torch_attention(*tensors, **arguments),
        inputs,
    )


SIZES: list[tuple[Any, ...]] = [
    (torch.float32, (2, 2), (1, 1), (16, 16)),
    (torch.bfloat16, (4, 2), (150, 150), (64, 64)),
    (torch.float16, (3, 1), (37, 300), (33, 20)),
    (torch.float32, (1, 1), (140, 20), (128, 128)),
    (torch.bfloat16, (1, 1), (70, 90), (256, 192)),
]


@CAUSAL
@pytest.mark.parametrize(("dtype", "heads", "lengths", "sizes"), SIZES, ids=str)
def test_numbers_and_gradients(
    dtype: torch.dtype, heads: tuple[int, int], lengths: tuple[int, int], sizes: tuple[int, int], is_causal: bool
) -> None:
    assert_right(inputs_of(heads, lengths, sizes, dtype), is_causal=is_causal, enable_gqa=True)


@pytest.fixture
def with_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles by tensor descriptors for little work too."""
    monkeypatch.setattr(attention_plan, "LARGE_WORK", 1)


@CAUSAL
@pytest.mark.usefixtures("with_descriptors")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_tiles_by_descriptors(dtype: torch.dtype, is_causal: bool) -> None:
    inputs = inputs_of((2, 1), (150, 170), (72, 40), dtype)
    query, key, value = inputs
    assert plan_forward(query, key, value, 1).is_tma
    assert not plan_forward(query[..., 1:], key[..., 1:], value, 1).is_tma
    assert_right(inputs, is_causal=is_causal, enable_gqa=True)


def reference_window(left: int, right: int) -> Any:
    """torch's attention under the mask of a window."""

    def reference(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        place = torch.arange(key.shape[-2]) - torch.arange(query.shape[-2])[:, None]
        return torch_attention(query, key, value, (place >= -left) & (place <= right))

    return reference


@pytest.mark.parametrize(("left", "right"), [(20, 0), (7, 9), (130, 3), (0, 0)])
@pytest.mark.parametrize("lengths", [(200, 200), (150, 60)], ids=str)
def test_windows(lengths: tuple[int, int], left: int, right: int) -> None:
    """Queries past the last key and its window get 0."""
    inputs = inputs_of((1, 1), lengths, (16, 16), batch=1)
    assert_near_float64(lambda *each: attention(*each, window=(left, right)), reference_window(left, right), inputs)


def test_a_window_without_a_bound_and_causal() -> None:
    inputs = inputs_of((1, 1), (70, 70), (16, 16), batch=1)
    torch.testing.assert_close(attention(*inputs, window=(-1, 0)), attention(*inputs, is_causal=True))
    torch.testing.assert_close(
        attention(*inputs, window=(5, 9), is_causal=True), reference_window(5, 0)(*inputs), rtol=1e-5, atol=1e-5
    )


MASKS = [
    (torch.ones(1, 3, 40, 50).tril(3) > 0),
    (torch.arange(50) % 3 > 0),
    draw((2, 1, 40, 50), torch.float32).masked_fill(torch.arange(40)[:, None] % 4 == 1, float("-inf")),
]


@pytest.mark.parametrize("mask", MASKS, ids=["lower", "keys", "added"])
def test_masks(mask: torch.Tensor) -> None:
    """Some rows of the one that is added see no key."""
    inputs = inputs_of((3, 3), (40, 50), (16, 16))

    def reference(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        added = mask if mask.dtype == torch.bool else mask.to(query.dtype)
        return torch_attention(query, key, value, added)

    assert_near_float64(lambda *tensors: attention(*tensors, mask), reference, inputs)


def packed_reference(starts: list[int], key_starts: list[int], is_causal: bool) -> Any:
    """torch's attention of each sequence by itself, 0 elsewhere."""

    def reference(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        spans = zip(starts, starts[1:], key_starts, key_starts[1:], strict=False)
        parts = [
            torch_attention(query[:, :, a:b], key[:, :, c:d], value[:, :, c:d], is_causal=is_causal, enable_gqa=True)
            for a, b, c, d in spans
        ]
        before, behind = query[..., : starts[0], :] * 0, query[..., starts[-1] :, :] * 0
        return torch.cat([before, *parts, behind], 2)

    return reference


@CAUSAL
def test_packed_sequences(is_causal: bool) -> None:
    """One of no rows, one of a single row, rows of no sequence in front and behind; sequences hear of no other."""
    starts = [3, 40, 40, 41, 130]
    inputs = inputs_of((2, 1), (135, 135), (16, 16), batch=1)
    packed = torch.tensor(starts)

    def hand(*tensors: torch.Tensor) -> torch.Tensor:
        return attention(*tensors, is_causal=is_causal, enable_gqa=True, cu_seqlens=packed.int())

    assert_near_float64(hand, packed_reference(starts, starts, is_causal), inputs)
    inputs[2][0, 0, 40:] = float("nan")
    assert not hand(*inputs)[:, :, :40].isnan().any()


@pytest.mark.usefixtures("with_descriptors")
def test_packed_sequences_by_descriptors() -> None:
    starts, key_starts = [0, 40, 90], [0, 64, 75]
    inputs = inputs_of((2, 2), (90, 75), (16, 16), torch.bfloat16, batch=1)
    arguments = {"cu_seqlens": torch.tensor(starts), "cu_seqlens_key": torch.tensor(key_starts)}
    assert_near_float64(
        lambda *each: attention(*each, **arguments), packed_reference(starts, key_starts, False), inputs
    )
    inputs[2][0, :, 64:] = float("nan")
    assert not attention(*inputs, **arguments)[:, :, :40].isnan().any()


def test_strides_axes_and_scales() -> None:
    base = [draw((2, 30, 3, 32), torch.float32, seed) for seed in range(3)]
    for view in (
        lambda x: x.transpose(1, 2),
        lambda x: x[..., ::2].transpose(1, 2),
        lambda x: x[:1].expand(2, 30, 3, 32),
    ):
        assert_right([view(each) for each in base])
    assert attention(*(each.transpose(1, 2) for each in base)).transpose(1, 2).is_contiguous()
    for scale in (0.3, -0.4, 0.0):
        assert_right([each[0] for each in base], scale=scale, is_causal=True)
    assert_right([each[0, 0] for each in base])
    assert_right([each[None] for each in base])


def test_empty_and_not_finite() -> None:
    query, key, value = inputs_of((1, 1), (5, 6), (8, 8), batch=1)
    assert attention(query, key[:, :, :0], value[:, :, :0]).eq(0).all()
    assert attention(query[:, :, :0], key, value).shape == (1, 1, 0, 8)
    assert attention(query[:0], key[:0], value[:0]).shape == (0, 1, 5, 8)
    assert_right([query, key[:, :, :0], value[:, :, :0]])
    for place, number in ((0, float("nan")), (1, float("inf")), (2, float("nan")), (2, float("-inf"))):
        tensors = [query.clone(), key.clone(), value.clone()]
        tensors[place][0, 0, 2, 3] = number
        torch.testing.assert_close(attention(*tensors), torch_attention(*tensors), equal_nan=True)
    query[0, 0, 1, 0], key[..., 0] = float("inf"), -1
    assert attention(query, key, value)[0, 0, 1].eq(0).all()
    assert torch_attention(query, key, value)[0, 0, 1].eq(0).all()


def test_large_scores_and_autocast() -> None:
    query, key, value = inputs_of((1, 1), (33, 40), (16, 16))
    large = [query * 100, key * 100, value]
    torch.testing.assert_close(attention(*large), torch_attention(*large), rtol=1e-2, atol=1e-2)
    assert_right([query * 3, key * 3, value])
    with torch.autocast("cpu", torch.bfloat16):
        assert attention(query, key, value).dtype == torch.bfloat16


def test_the_operators_pass_opcheck() -> None:
    query, key, value = inputs_of((2, 1), (20, 30), (16, 8))
    operators = torch.ops.tilesight
    given = (None, None, None, 0.25, 1 << 30, 0)
    torch.library.opcheck(operators.attention.default, (query, key, value, *given))
    out, lse = operators.attention(query, key, value, *given)
    torch.library.opcheck(operators.attention_backward.default, (out, query, key, value, out, lse, *given))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    assert_compiled_whole(
        lambda *each: attention(*each, is_causal=True, enable_gqa=True), inputs_of((2, 1), (9, 9), (16, 16))
    )


def test_bad_input() -> None:
    query, key, value = inputs_of((4, 2), (5, 6), (8, 8))
    with pytest.raises(RuntimeError, match="enable_gqa=True allows fewer"):
        attention(query, key, value)
    with pytest.raises(RuntimeError, match="must divide the query's"):
        attention(query[:, :3], key, value, enable_gqa=True)
    with pytest.raises(RuntimeError, match=r"of one dtype, got query torch\.float32, key torch\.float16"):
        attention(query, key.half(), value.half())
    with pytest.raises(RuntimeError, match="keys as wide as queries"):
        attention(query, key[..., :4], value, enable_gqa=True)
    with pytest.raises(RuntimeError, match="as many axes"):
        attention(query[0], key, value)
    with pytest.raises(RuntimeError, match="without broadcasting"):
        attention(query[:1], key, value, enable_gqa=True)
    with pytest.raises(TypeError, match=r"float32, not torch\.float64"):
        attention(query.double(), key.double(), value.double())
    with pytest.raises(RuntimeError, match="dropout_p"):
        attention(query, query, query, dropout_p=0.1)
    with pytest.raises(ValueError, match="heads of up to 256"):
        attention(*(torch.zeros(1, 1, 2, 257),) * 3)
    with pytest.raises(ValueError, match="window must be two numbers"):
        attention(query, query, query, window=(-2, 0))


def test_bad_masks_and_sequences() -> None:
    query = draw((1, 4, 5, 8), torch.float32)
    tensors = (query, query, query)
    with pytest.raises(RuntimeError, match="does not broadcast"):
        attention(*tensors, torch.ones(4, 5, 6, dtype=torch.bool))
    with pytest.raises(RuntimeError, match="expected attn_mask of bool"):
        attention(*tensors, torch.ones(5, 5, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="no gradient of attn_mask"):
        attention(*tensors, torch.ones(5, 5, requires_grad=True))
    with pytest.raises(RuntimeError, match="together with cu_seqlens"):
        attention(*tensors, torch.ones(5, 5), cu_seqlens=torch.tensor([0, 5]))
    with pytest.raises(ValueError, match="must rise from 0 to at most 5"):
        attention(*tensors, cu_seqlens=torch.tensor([0, 6]))
    with pytest.raises(ValueError, match="must rise"):
        attention(*tensors, cu_seqlens=torch.tensor([3, 2]))
    with pytest.raises(ValueError, match="needs cu_seqlens"):
        attention(*tensors, cu_seqlens_key=torch.tensor([0, 5]))
    with pytest.raises(RuntimeError, match="the batch is 1"):
        attention(*(each.expand(2, 4, 5, 8) for each in tensors), cu_seqlens=torch.tensor([0, 5]))


@CAUSAL
def test_no_finding(is_causal: bool) -> None:
    """The gradients too. Of strided tensors dense copies are taken: what is compiled is then always the same."""

    def gradients(function: Any) -> Any:
        def both(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            with torch.enable_grad():
                leaves = [each.contiguous().detach().requires_grad_() for each in tensors]
                out = function(*leaves, is_causal=is_causal)
                return (out.detach(), *torch.autograd.grad(out.square().sum(), leaves))

        return both

    inputs = ",".join(["bf16[1,1,40,16]"] * 3)
    case = Case(eager=gradients(torch_attention), hand=gradients(attention), inputs=inputs)
    assert_no_finding(case, shapes="1,1,40,16")
