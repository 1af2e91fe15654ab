"""Kept launches on a GPU: one for each kind of arguments, right where they differ from the first ones."""

from __future__ import annotations

import torch
from triton.runtime import driver

from tests.gpu.drawn import draw
from tilesight.capture.launches import EngineSession
from tilesight.kernels import add, launching, softmax


def kept(function: str) -> int:
    return sum(key[0].__name__ == function for key in launching._kept)  # pyright: ignore[reportPrivateUsage]


def test_a_launch_is_kept_once_for_each_kind_of_arguments() -> None:
    launching._kept.clear()  # pyright: ignore[reportPrivateUsage]
    x = draw((64, 512), torch.float32)
    for _ in range(3):
        torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
    assert kept("softmax_rows") == 1
    softmax(x.bfloat16())
    softmax(x[:32])
    assert kept("softmax_rows") == 3


def test_an_address_that_is_not_aligned_is_another_kernel() -> None:
    """A kernel compiled for addresses of 16 bytes would read vectors across them."""
    line = draw((4097,), torch.float32)
    for first in (0, 1, 0, 1, 2):
        x = line[first : first + 4000]
        torch.testing.assert_close(add(x, x), x + x)


def test_another_stream_gets_the_same_launch() -> None:
    x = draw((64, 512), torch.float32)
    softmax(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)  # pyright: ignore[reportPrivateUsage]
        x.mul_(3)
        y = softmax(x)
    stream.synchronize()
    torch.testing.assert_close(y, torch.softmax(x, -1))


def test_a_session_of_the_engine_launches_nothing_that_was_kept() -> None:
    x = draw((64, 512), torch.float32)
    softmax(x)
    with EngineSession(is_pinned=True):
        active = driver.active
        assert all(key[5] is not active for key in launching._kept)  # pyright: ignore[reportPrivateUsage]
        softmax(x.cpu())
        assert all(key[5] is not active for key in launching._kept)  # pyright: ignore[reportPrivateUsage]
    torch.testing.assert_close(softmax(x), torch.softmax(x, -1))
