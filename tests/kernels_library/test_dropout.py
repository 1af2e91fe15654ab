"""Dropout of the hand-written library, on the engine."""

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
from tilesight.kernels import dropout


def kept(shape: tuple[int, ...], p: float, seed: int) -> torch.Tensor:
    return dropout(torch.ones(shape), p, seed=seed) != 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0, 7), (3, 1009), (2, 3, 1500)], ids=str)
def test_numbers_and_gradients(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Both ways the mask of the seed, whatever the dtype."""
    mask = kept(shape, 0.25, 5)
    assert_near_float64(lambda x: dropout(x, 0.25, seed=5), lambda x: x * mask / 0.75, [draw(shape, dtype)])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_that_is_kept(p: float) -> None:
    """Within five standard deviations, in neighbours and in each of the four words as well."""
    mask = kept((8192,), p, 11).double()
    for part in (mask, *mask.view(-1, 4).unbind(1)):
        assert abs(float(part.mean()) - (1 - p)) < 5 * (p * (1 - p) / part.numel()) ** 0.5
    pairs = (mask[1:] * mask[:-1]).mean()
    assert abs(float(pairs) - (1 - p) ** 2) < 0.05


def test_replay() -> None:
    x = draw((3, 700), torch.float32)
    assert torch.equal(dropout(x, seed=3), dropout(x, seed=torch.tensor(3)))
    assert not torch.equal(kept((4000,), 0.5, 3), kept((4000,), 0.5, 4))
    assert torch.equal(kept((4000,), 0.5, 2**40 + 1)[:100], kept((100,), 0.5, 2**40 + 1))
    assert not torch.equal(kept((4000,), 0.5, 2**40 + 1), kept((4000,), 0.5, 1))
    assert torch.equal(dropout(x[:, ::2], seed=3), dropout(x[:, ::2].contiguous(), seed=3))
    torch.manual_seed(1)
    first, second = dropout(x), dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first) and not torch.equal(first, second)


def test_the_ends_and_nan() -> None:
    x = torch.full((64,), float("nan"))
    assert dropout(x, 0.5, seed=1).isnan().all() and dropout(x, 1.0).isnan().all()
    assert dropout(torch.ones(64), 1.0).eq(0).all()
    assert dropout(x, 0.0) is x and dropout(x, training=False) is x


def test_gradcheck() -> None:
    x = draw((3, 5), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: dropout(t, 0.3, seed=2), (x,))


def test_the_operator_passes_opcheck() -> None:
    torch.library.opcheck(torch.ops.tilesight.dropout.default, (draw((3, 20), torch.float32), torch.tensor(4), 0.5))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    assert_compiled_whole(lambda x: dropout(x, 0.5, seed=9), [draw((3, 9), torch.float32)])
    compiled = torch.compile(lambda x: dropout(x) + 1, fullgraph=True, backend="aot_eager")
    assert sorted(set(compiled(torch.ones(200)).tolist())) == [1.0, 3.0]


def test_bad_input() -> None:
    x = torch.zeros(8)
    with pytest.raises(ValueError, match=r"has to be between 0 and 1, but got 1\.5"):
        dropout(x, 1.5)
    with pytest.raises(RuntimeError, match="no in-place form"):
        dropout(x, inplace=True)
    with pytest.raises(RuntimeError, match=r"seed must be int64 \[\] on cpu, got torch\.float32 \[1\]"):
        dropout(x, seed=torch.zeros(1))
    with pytest.raises(TypeError, match=r"dropout takes .* not torch\.int32"):
        dropout(x.int())


def test_no_finding() -> None:
    mask = kept((5, 500), 0.5, 7)
    case = Case(eager=lambda x: x * mask * 2, hand=lambda x: dropout(x, seed=7), inputs="bf16[5,500]")
    assert_no_finding(case, shapes="5,500")
