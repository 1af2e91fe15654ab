"""Tensors without memory behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tilesight.capture.scaled import LARGEST_VIRTUAL_BYTES, VirtualTensors, virtual_tensor
from tilesight.errors import InputError

# pyright: basic

LARGE = 2**33


def resident_bytes() -> int:
    """What this process holds in memory (proc(5), statm: pages)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool])
def test_an_address_and_no_memory(dtype: torch.dtype) -> None:
    before = resident_bytes()
    tensor = virtual_tensor((LARGE // 1024, 1024), dtype)
    assert tensor.shape == (LARGE // 1024, 1024) and tensor.is_contiguous() and tensor.dtype == dtype
    assert float(tensor[-1, -1]) == 0
    tensor[LARGE // 2048, 5] = 1
    assert float(tensor[LARGE // 2048, 5]) == 1
    assert resident_bytes() - before < 64 << 20


def test_strides_and_empty() -> None:
    assert virtual_tensor((3, 4), torch.float32, (1, 3)).stride() == (1, 3)
    assert virtual_tensor((0, 4), torch.float32).numel() == 0


def test_more_than_can_be_addressed() -> None:
    with pytest.raises(InputError, match="has no place in this process"):
        virtual_tensor((LARGEST_VIRTUAL_BYTES,), torch.float32)


def test_what_a_launcher_makes_is_virtual_over_the_limit() -> None:
    mode = VirtualTensors()
    with mode:
        x = torch.empty(LARGE)
        made = [
            torch.zeros(LARGE, dtype=torch.bfloat16),
            torch.empty_like(x),
            x.new_empty((LARGE // 2, 3)),
            torch.full((LARGE,), 3.0),
            torch.empty_strided((LARGE // 4, 4), (1, LARGE // 4)),
        ]
        small = torch.ones(4) + 1
    assert mode.holds(x) and all(mode.holds(each) for each in made) and not mode.holds(small)
    assert small.tolist() == [2.0] * 4
    assert [tuple(each.shape) for each in made] == [(LARGE,), (LARGE,), (LARGE // 2, 3), (LARGE,), (LARGE // 4, 4)]
    assert made[0].dtype == torch.bfloat16 and made[4].stride() == (1, LARGE // 4)
    assert mode.skipped == set()


def test_nothing_is_computed_on_one() -> None:
    before = resident_bytes()
    mode = VirtualTensors()
    with mode:
        x = mode.make((LARGE // 1024, 1024), torch.float32)
        total = (x * 2 + 1).sum(dim=0)
        half = x.to(torch.float16)
        x.zero_()
        x.add_(1)
        copied = x.t().contiguous()
        same = x.view(-1)[4:]
    assert tuple(total.shape) == (1024,) and mode.holds(total)
    assert half.dtype == torch.float16 and tuple(copied.shape) == (1024, LARGE // 1024)
    assert same.data_ptr() == x.data_ptr() + 16
    assert {"aten.mul.Tensor", "aten.add.Tensor", "aten.add_.Tensor", "aten.zero_"} <= mode.skipped
    assert resident_bytes() - before < 64 << 20


def test_a_launcher_that_wants_values_is_refused() -> None:
    mode = VirtualTensors()
    with mode, pytest.raises(InputError, match="asks for the values of a scaled tensor"):
        mode.make((LARGE,), torch.float32).max().item()


@pytest.mark.parametrize(
    "count",
    [torch.bincount, lambda counts: torch.repeat_interleave(torch.arange(2), counts)],
    ids=["bincount", "repeat_interleave"],
)
def test_what_makes_as_many_elements_as_an_index_says_is_refused(count) -> None:
    with VirtualTensors():
        assert count(torch.tensor([3, 5])).numel() in (6, 8)
        with pytest.raises(InputError, match="would make"):
            count(torch.tensor([3, 2**30]))
