"""Calls that are made again on a GPU from what was written down: the bits of the whole call, on any stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.gpu.drawn import draw
from tests.kernels_library.test_remembered import CALLS
from tilesight import kernels
from tilesight.capture.launches import EngineSession
from tilesight.kernels import remembered


class Count:
    """Counts the calls that were made again; with `whole` none is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._patch = monkeypatch
        again = remembered._Call.again  # pyright: ignore[reportPrivateUsage]

        def counted(call: Any, tensors: list[torch.Tensor]) -> Any:
            self.count += 1
            return again(call, tensors)

        monkeypatch.setattr(remembered._Call, "again", counted)  # pyright: ignore[reportPrivateUsage]

    def whole(self, function: Callable[..., Any], *args: Any) -> Any:
        with self._patch.context() as patch:
            patch.setattr(remembered, "is_observed", lambda: True)
            return function(*args)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Count:
    return Count(monkeypatch)


def on_gpu(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(each.cuda() if isinstance(each, torch.Tensor) else each for each in args)


@pytest.mark.parametrize("name", CALLS)
def test_the_third_call_is_made_again_with_the_same_bits(name: str, counted: Count) -> None:
    function = getattr(kernels, name)
    for seed, count in ((1, 0), (2, 0), (3, 1), (4, 2)):
        inputs = on_gpu(CALLS[name](seed))
        result = function(*inputs)
        assert counted.count == count
        torch.testing.assert_close(result, counted.whole(function, *inputs), rtol=0, atol=0, equal_nan=True)


def test_descriptors_get_the_addresses_of_the_new_tensors(counted: Count) -> None:
    for seed in range(4):
        a, b = draw((512, 1024), torch.bfloat16, seed), draw((1024, 768), torch.bfloat16, seed + 9)
        torch.testing.assert_close(kernels.matmul(a, b), a @ b, rtol=2e-2, atol=2e-1)
        q, k, v = (draw((2, 4, 512, 64), torch.bfloat16, seed + each) for each in range(3))
        wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.testing.assert_close(kernels.attention(q, k, v, is_causal=True), wanted, rtol=2e-2, atol=2e-2)
    assert counted.count == 4


def test_a_call_goes_to_the_current_stream_and_into_a_graph(counted: Count) -> None:
    x = draw((64, 512), torch.float32)
    for _ in range(3):
        kernels.softmax(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)  # pyright: ignore[reportPrivateUsage]
        x.mul_(3)
        y = kernels.softmax(x)
    stream.synchronize()
    torch.testing.assert_close(y, torch.softmax(x, -1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernels.softmax(x)
    x.mul_(-1)
    graph.replay()
    torch.testing.assert_close(y, torch.softmax(x, -1))
    assert counted.count == 3


def test_a_gradient_comes_from_calls_that_are_made_again(counted: Count) -> None:
    """The operators inside of a gradient are remembered, the function around them is not."""
    for seed in range(4):
        x, w = draw((64, 512), torch.float32, seed).requires_grad_(), draw((512,), torch.float32, 9).requires_grad_()
        grad = draw((64, 512), torch.float32, seed + 20)
        found = torch.autograd.grad(kernels.layer_norm(x, (512,), w), (x, w), grad)
        wanted = torch.autograd.grad(torch.nn.functional.layer_norm(x, (512,), w), (x, w), grad)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert counted.count >= 2


def test_hooks_on_launches_are_called() -> None:
    from triton import knobs

    x = draw((64, 512), torch.float32)
    for _ in range(3):
        kernels.softmax(x)
    seen: list[str] = []

    def hook(metadata: Any) -> None:
        seen.append(str(metadata.get()["name"]))

    knobs.runtime.launch_enter_hook.add(hook)
    try:
        kernels.softmax(x)
    finally:
        knobs.runtime.launch_enter_hook.remove(hook)
    kernels.softmax(x)
    assert seen == ["softmax_rows"]


def test_a_session_of_the_engine_gets_none_of_them(counted: Count) -> None:
    x = draw((64, 512), torch.float32)
    for _ in range(3):
        kernels.softmax(x)
    count = counted.count
    with EngineSession(is_pinned=True):
        kernels.softmax(x.cpu())
    torch.testing.assert_close(kernels.softmax(x), torch.softmax(x, -1))
    assert counted.count == count + 1
