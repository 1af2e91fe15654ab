"""Softmax and RMSNorm of the hand-written library on a GPU: numbers, gradients, CUDA graphs, two streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.gpu.drawn import DTYPES, draw
from tests.kernels_library.against_float64 import assert_near_float64
from tilesight.kernels import add_rms_norm, layer_norm, log_softmax, rms_norm, softmax
from tilesight.kernels.row_plan import MOST_COLUMNS

Function = Callable[..., Any]
SHAPES = [
    *((0, 7), (3, 1), (1000, 5), (4096, 1024), (300, 1025), (129, 4096), (7, 5003), (64, 8192), (33, 16384)),
    *((2000, 20000), (200, 32768), (130, 65536), (8, 131072), (70, 131072), (40, 262144), (3, 1_000_003)),
]
NORM_SHAPES = [(3, 2) if shape == (3, 1) else shape for shape in SHAPES]
"""The gradient of a norm over one column is a difference of equal numbers."""
LAYER_NORM_SHAPES = [(0, 7), (3, 1), (1000, 5), (300, 1025), (64, 8192), (33, 16384), (200, 32768), (8, 131072)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("function", "reference"), [(softmax, torch.softmax), (log_softmax, torch.log_softmax)])
def test_softmax(function: Function, reference: Function, shape: tuple[int, int], dtype: torch.dtype) -> None:
    grads = draw(shape, dtype, 7)
    assert_near_float64(function, lambda x: reference(x, -1), [draw(shape, dtype) * 3], grads=[grads])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", NORM_SHAPES, ids=str)
def test_rms_norm(shape: tuple[int, int], dtype: torch.dtype) -> None:
    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, weight.shape, weight, 1e-5)

    def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, 1e-5)

    inputs = [draw(shape, dtype), draw(shape[-1:], dtype, 1)]
    assert_near_float64(norm, reference, inputs, grads=[draw(shape, dtype, 7)])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", LAYER_NORM_SHAPES, ids=str)
def test_layer_norm(shape: tuple[int, int], dtype: torch.dtype) -> None:
    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return layer_norm(x, weight.shape, weight, bias, 1e-5)

    def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, weight.shape, weight, bias, 1e-5)

    inputs = [draw(shape, dtype) + 3, draw(shape[-1:], dtype, 1), draw(shape[-1:], dtype, 2)]
    assert_near_float64(norm, reference, inputs, grads=[draw(shape, dtype, 7)])


@pytest.mark.parametrize("shape", [(64, 8192), (33, 16384), (70, 131072)], ids=str)
def test_add_rms_norm(shape: tuple[int, int]) -> None:
    x, residual = ((draw(shape, torch.float32, seed) * 2).round().bfloat16() / 2 for seed in (0, 1))
    weight = draw(shape[-1:], torch.bfloat16, 2)

    def reference(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.rms_norm(a + b, w.shape, w, 1e-5), a + b

    grads = [draw(shape, torch.bfloat16, seed) for seed in (7, 8)]
    assert_near_float64(lambda a, b, w: add_rms_norm(a, b, w, 1e-5), reference, [x, residual, weight], grads=grads)


@pytest.mark.parametrize("columns", [20_000, 262_144])
def test_shared_rows_give_the_same_a_thousand_times(columns: int) -> None:
    """Every word of every turn is seen by every sibling, whichever comes first."""
    x = draw((300, columns), torch.bfloat16)
    first = softmax(x)
    wrong = sum((softmax(x) != first).any().long() for _ in range(1000))
    assert int(wrong) == 0


def test_a_cuda_graph_replays_shared_rows() -> None:
    x = draw((200, 65_536), torch.bfloat16)
    softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = softmax(x)
    for seed in range(3):
        x.copy_(draw((200, 65_536), torch.bfloat16, seed))
        graph.replay()
        torch.testing.assert_close(y, torch.softmax(x, -1))


def test_two_streams_share_no_words() -> None:
    inputs = [draw((400, 65_536), torch.bfloat16, seed) for seed in (0, 1)]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    outputs: list[torch.Tensor] = []
    for _ in range(20):
        outputs = []
        for x, stream in zip(inputs, streams, strict=True):
            with torch.cuda.stream(stream):
                outputs.append(softmax(x))
    torch.cuda.synchronize()
    for x, y in zip(inputs, outputs, strict=True):
        torch.testing.assert_close(y, torch.softmax(x, -1))


def test_more_columns_than_are_supported() -> None:
    with pytest.raises(ValueError, match=f"at most {MOST_COLUMNS:,} are supported"):
        softmax(torch.zeros(1, MOST_COLUMNS + 1, device="cuda", dtype=torch.bfloat16))


def test_compiled_without_a_graph_break() -> None:
    x = draw((64, 4096), torch.bfloat16).requires_grad_()
    compiled = torch.compile(lambda t: softmax(t * 2) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.softmax(x * 2, -1) + 1)
    compiled(x).float().square().sum().backward()
    assert x.grad is not None and bool(x.grad.isfinite().all())
