"""Attention and decode attention of the hand-written library on a GPU: numbers and gradients against float64."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from tests.kernels_library.against_float64 import assert_near_float64
from tests.kernels_library.test_decode_attention import reference as decode_reference
from tilesight import kernels
from tilesight.capture.numerics import judge
from tilesight.kernels import attention_plan

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"

attention: Any = kernels.attention
decode_attention: Any = kernels.decode_attention
DTYPES = [torch.bfloat16, torch.float16, torch.float32]
CAUSAL = pytest.mark.parametrize("is_causal", [False, True])
SIZES = [
    ((2, 2), (1, 1), 64),
    ((8, 2), (1000, 1000), 128),
    ((4, 4), (513, 300), 64),
    ((2, 1), (100, 1111), 256),
    ((3, 3), (257, 257), 80),
    ((2, 2), (300, 300), 16),
    ((2, 2), (384, 256), 32),
]


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).to(dtype)


def inputs_of(heads: tuple[int, int], lengths: tuple[int, int], head: int, dtype: torch.dtype) -> list[torch.Tensor]:
    shapes = [(2, heads[0], lengths[0], head), (2, heads[1], lengths[1], head), (2, heads[1], lengths[1], head)]
    return [draw(shape, dtype, seed) for seed, shape in enumerate(shapes)]


def plain(*given: torch.Tensor) -> torch.Tensor:
    """Attention as its formula says, of query, key, value and what is seen, where every query sees a key."""
    query, key, value, seen = given
    group = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(group, 1).mT * query.shape[-1] ** -0.5
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    return weights @ value.repeat_interleave(group, 1)


def seen_by(queries: int, keys: int, left: int, right: int) -> torch.Tensor:
    place = torch.arange(keys, device="cuda") - torch.arange(queries, device="cuda")[:, None]
    return (place >= -left) & (place <= right)


def assert_right(inputs: list[torch.Tensor], left: int, right: int, **arguments: Any) -> None:
    queries, keys = inputs[0].shape[2], inputs[1].shape[2]
    seen = seen_by(queries, keys, left, right)
    grad = draw((*inputs[0].shape[:3], inputs[2].shape[3]), inputs[0].dtype, 7)
    assert_near_float64(
        lambda *each: attention(*each, **arguments), lambda *each: plain(*each, seen), inputs, grads=[grad]
    )


@pytest.fixture(params=[1, 1 << 62], ids=["descriptors", "pointers"])
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles by tensor descriptors always, then never."""
    monkeypatch.setattr(attention_plan, "LARGE_WORK", request.param)


@CAUSAL
@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("heads", "lengths", "head"), SIZES, ids=str)
def test_numbers_and_gradients(
    heads: tuple[int, int], lengths: tuple[int, int], head: int, dtype: torch.dtype, is_causal: bool
) -> None:
    inputs = inputs_of(heads, lengths, head, dtype)
    assert_right(inputs, 1 << 30, 0 if is_causal else 1 << 30, is_causal=is_causal, enable_gqa=True)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize(("left", "right"), [(300, 0), (64, 200), (0, 0)])
def test_windows(left: int, right: int) -> None:
    assert_right(inputs_of((2, 2), (1000, 1000), 64, torch.bfloat16), left, right, window=(left, right))


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.bfloat16], ids=str)
def test_masks(dtype: torch.dtype) -> None:
    inputs = inputs_of((2, 2), (300, 400), 64, torch.bfloat16)
    seen = (torch.rand(2, 1, 300, 400, generator=torch.Generator("cuda").manual_seed(1), device="cuda") < 0.5) | (
        seen_by(300, 400, 0, 0)
    )
    mask = seen if dtype == torch.bool else torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, float("-inf"))
    grad = draw((2, 2, 300, 64), torch.bfloat16, 7)
    assert_near_float64(lambda *each: attention(*each, mask), lambda *each: plain(*each, seen), inputs, grads=[grad])


@CAUSAL
@pytest.mark.usefixtures("tiles")
def test_packed_sequences(is_causal: bool) -> None:
    """Each as it is by itself, gradients too."""
    starts = [0, 5, 5, 700, 1500]
    inputs = [each[:1] for each in inputs_of((4, 2), (1500, 1500), 128, torch.bfloat16)]
    grad = draw((1, 4, 1500, 128), torch.bfloat16, 7)
    right = 0 if is_causal else 1 << 30

    def reference(*tensors: torch.Tensor) -> torch.Tensor:
        parts = [
            plain(*(each[:, :, a:b] for each in tensors), seen_by(b - a, b - a, 1 << 30, right))
            for a, b in pairwise(starts)
        ]
        return torch.cat(parts, 2)

    places = torch.tensor(starts, device="cuda", dtype=torch.int32)
    assert_near_float64(
        lambda *each: attention(*each, is_causal=is_causal, enable_gqa=True, cu_seqlens=places),
        reference,
        inputs,
        grads=[grad],
    )


def test_gradients_are_the_same_every_time() -> None:
    leaves = [each.requires_grad_() for each in inputs_of((8, 2), (2000, 2000), 128, torch.bfloat16)]
    grad = draw((2, 8, 2000, 128), torch.bfloat16, 7)
    out = attention(*leaves, is_causal=True, enable_gqa=True)
    first = torch.autograd.grad(out, leaves, grad, retain_graph=True)
    for _ in range(20):
        again = torch.autograd.grad(out, leaves, grad, retain_graph=True)
        assert all(torch.equal(*pair) for pair in zip(first, again, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("heads", "head"), [((32, 8), 128), ((8, 8), 64), ((71, 1), 64), ((4, 2), 256)], ids=str)
@pytest.mark.parametrize("lengths", [[1], [5000], [0, 17, 1000, 3000], list(range(1, 200))], ids=len)
def test_decode_attention(lengths: list[int], heads: tuple[int, int], head: int, dtype: torch.dtype) -> None:
    columns = max(1, -(-max(lengths) // 16))
    generator = torch.Generator().manual_seed(5)
    table = torch.randperm(len(lengths) * columns, generator=generator).reshape(len(lengths), columns).int().cuda()
    query = draw((len(lengths), heads[0], head), dtype, 1)
    key, value = (draw((table.numel(), 16, heads[1], head), dtype, seed) for seed in (2, 3))
    held = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    wanted = decode_reference(query.double(), key.double(), value.double(), table, held)
    verdict = judge(decode_attention(query, key, value, table, held), [wanted])
    assert verdict.ok, verdict
