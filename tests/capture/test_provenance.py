"""Which elements of torch's tensors nothing has written: creations, writes, copies, views, and who writes unseen."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.capture.flags import flags
from tilesight import targets
from tilesight.capture.lent.lend import LentCuda
from tilesight.capture.provenance import Provenance
from tilesight.capture.tensors import memory_of
from tilesight.capture.undefined import written_of

_FOREACH_ZERO: Any = torch.__dict__["_foreach_zero_"]
_FOREACH_COPY: Any = torch.__dict__["_foreach_copy_"]


@pytest.fixture(autouse=True)
def watched() -> Iterator[Provenance]:
    with Provenance() as provenance:
        yield provenance


def half() -> torch.Tensor:
    tensor = torch.empty(4)
    tensor[:2] = 7
    return tensor


CREATIONS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "empty": (lambda: torch.empty(2, 3), "......"),
    "empty of no elements": (lambda: torch.empty(0, 3), ""),
    "empty, no axes": (lambda: torch.empty(()), "."),
    "empty_like": (lambda: torch.empty_like(torch.ones(2, 2)), "...."),
    "empty_like of a transposed tensor": (lambda: torch.empty_like(torch.ones(2, 3).t()), "......"),
    "empty_like of every other column": (lambda: torch.empty_like(torch.ones(2, 6)[:, ::2]), "......"),
    "empty_like of a broadcast row": (lambda: torch.empty_like(torch.ones(1, 3).expand(2, 3)), "......"),
    "empty_strided with gaps": (lambda: torch.empty_strided((2, 2), (3, 1)), "....."),
    "empty_permuted": (lambda: torch.empty_permuted((2, 3), (1, 0)), "......"),
    "new_empty": (lambda: torch.ones(1).new_empty((3,)), "..."),
    "new_empty_strided": (lambda: torch.ones(1).new_empty_strided((2,), (2,)), "..."),
    "torch.Tensor(n)": (lambda: torch.Tensor(3), "..."),
    "torch.FloatTensor(n)": (lambda: torch.FloatTensor(3), "..."),
    "tensor.new(n)": (lambda: torch.ones(1).new(3), "..."),
    "viewed": (lambda: torch.empty(6).view(2, 3).t(), "......"),
    "a view of other items": (lambda: torch.empty(2, dtype=torch.float64).view(torch.int32), ".."),
    "a parameter": (lambda: torch.nn.Parameter(torch.empty(3)), "..."),
    "resize_ that grows what is written": (lambda: torch.ones(2).resize_(5), "xx..."),
    "resize_ that grows what is not": (lambda: torch.empty(2).resize_(4), "...."),
    "resize_ that grows what is half written": (lambda: half().resize_(6), "xx...."),
    "resize_ of nothing": (lambda: torch.empty(0).resize_(3), "..."),
    "resize_ that shrinks": (lambda: torch.ones(4).resize_(2), ""),
    "resize_as_": (lambda: torch.ones(1).resize_as_(torch.ones(3)), "x.."),
    "empty(out=) that grows": (lambda: torch.empty(3, out=torch.ones(2)), "xx."),
    "zeros": (lambda: torch.zeros(3), ""),
    "ones": (lambda: torch.ones(3), ""),
    "full": (lambda: torch.full((3,), 2.0), ""),
    "arange": (lambda: torch.arange(3), ""),
    "eye": (lambda: torch.eye(3), ""),
    "randn": (lambda: torch.randn(3), ""),
    "randperm": (lambda: torch.randperm(3), ""),
    "tensor": (lambda: torch.tensor([1, 2]), ""),
    "zeros_like": (lambda: torch.zeros_like(torch.empty(3)), ""),
    "new_zeros": (lambda: torch.empty(3).new_zeros(2), ""),
    "from_numpy": (lambda: torch.from_numpy(np.empty(3)), ""),
    "a layer's weight": (lambda: torch.nn.Linear(2, 2).weight, ""),
    "out= of nothing": (lambda: torch.add(torch.ones(3), 1, out=torch.empty(0)), ""),
    "what is computed from undefined elements": (lambda: torch.empty(3) + 1, ""),
}


@pytest.mark.parametrize("is_inference", [False, True], ids=["grad", "inference"])
@pytest.mark.parametrize("name", CREATIONS)
def test_what_a_creation_leaves_undefined(name: str, is_inference: bool) -> None:
    make, expected = CREATIONS[name]
    with torch.inference_mode(is_inference):
        assert flags(make()) == expected


def _put(tensor: torch.Tensor, index: Any, value: Any) -> None:
    tensor[index] = value


WRITES: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "nothing": (lambda x: x.sum(), "........"),
    "metadata": (lambda x: x.t_().unsqueeze_(0).squeeze_(0).requires_grad_(), "........"),
    "set_ of another": (lambda x: x.detach().set_(torch.ones(3).untyped_storage()), "........"),
    "fill_": (lambda x: x.fill_(1), ""),
    "zero_": (lambda x: x.zero_(), ""),
    "normal_": (lambda x: x.normal_(), ""),
    "copy_ of a row": (lambda x: x.copy_(torch.ones(4)), ""),
    "a row": (lambda x: _put(x, 1, 2.0), "....xxxx"),
    "a column": (lambda x: _put(x, (slice(None), 1), 2.0), ".x...x.."),
    "every other element backwards": (lambda x: x.view(-1)[1::2].flip(0).copy_(torch.ones(4)), "........"),
    "every other element": (lambda x: x.view(-1)[1::2].copy_(torch.ones(4)), ".x.x.x.x"),
    "NaN": (lambda x: x[0].fill_(float("nan")), "xxxx...."),
    "transposed": (lambda x: x.t()[0].fill_(1), "x...x..."),
    "detached": (lambda x: x.detach()[0, 0].fill_(1), "x......."),
    ".data": (lambda x: x.data[0, 3].fill_(1), "...x...."),
    "narrow": (lambda x: x.narrow(1, 1, 2).fill_(0), ".xx..xx."),
    "as_strided": (lambda x: x.as_strided((2, 2), (5, 1), 1).fill_(0), ".xx...xx"),
    "a view of wider items": (lambda x: x.view(torch.float64)[0, 1].fill_(0), "..xx...."),
    "a view of narrower items": (lambda x: x.view(torch.int16)[1, 3:].fill_(0), ".....xxx"),
    "complex": (lambda x: torch.view_as_complex(x.view(2, 2, 2))[1, 0].fill_(1j), "....xx.."),
    "arithmetic in place": (lambda x: x[1].mul_(2), "....xxxx"),
    "out=": (lambda x: torch.add(torch.ones(4), 1, out=x[0]), "xxxx...."),
    "two out=": (lambda x: torch.max(torch.ones(4, 2), 1, out=(x[1], torch.empty(4).long())), "....xxxx"),
    "foreach": (lambda x: _FOREACH_ZERO([x[0], x[1, :1]]), "xxxxx..."),
    "foreach copy": (lambda x: _FOREACH_COPY([x[0], x[1, :1]], [torch.ones(4), torch.ones(1)]), "xxxxx..."),
    "by index": (lambda x: _put(x.view(-1), torch.tensor([1, 6]), 3.0), ".x....x."),
    "by mask": (lambda x: _put(x, torch.eye(2, 4).bool(), 3.0), "x....x.."),
    "masked_fill_": (lambda x: x.masked_fill_(torch.eye(2, 4).bool(), 3.0), "x....x.."),
    "scatter_": (lambda x: x.scatter_(1, torch.tensor([[2], [0]]), 5.0), "..x.x..."),
    "index_copy_": (lambda x: x.index_copy_(1, torch.tensor([3]), torch.ones(2, 1)), "...x...x"),
    "put_": (lambda x: x.put_(torch.tensor([7]), torch.ones(1)), ".......x"),
    "fill_diagonal_": (lambda x: x.fill_diagonal_(1.0), "x....x.."),
    "numpy": (lambda x: x.numpy().__setitem__((0, slice(1, 3)), 4.0), ".xx....."),
    "ctypes": (lambda x: ctypes.memset(x.data_ptr() + 8, 0, 4), "..x....."),
    "set by a library": (lambda x: np.from_dlpack(x)[1].fill(0), "....xxxx"),
    "all rows in turn": (lambda x: [row.fill_(1) for row in x], ""),
    "optimiser": (lambda x: torch.nn.init.xavier_uniform_(x), ""),
    "undefined elements": (lambda x: x.fill_(1)[0].copy_(torch.empty(4)), "....xxxx"),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_a_write_reaches(name: str) -> None:
    write, expected = WRITES[name]
    tensor = torch.empty(2, 4)
    write(tensor)
    assert flags(tensor) == expected


def test_a_storage_that_grows_keeps_what_it_held() -> None:
    tensor = half().resize_(2000)
    assert tensor[:2].tolist() == [7, 7]
    assert bool(tensor[2:].isnan().all())
    assert flags(tensor) == "xx" + "." * 1998


def test_what_numpy_wrote_outlives_a_copy_of_undefined_elements_beside_it() -> None:
    tensor = torch.empty(4)
    tensor.numpy()[0] = 3
    tensor[1:3].copy_(torch.empty(2))
    assert flags(tensor) == "x..."
    assert tensor[0] == 3


def test_a_copy_of_undefined_elements_over_written_ones_undoes_them() -> None:
    tensor = torch.ones(2, 4)
    source = torch.empty(2)
    source[1] = 5
    tensor[0, 1:3].copy_(source)
    assert flags(tensor) == "x.xxxxxx"
    assert torch.equal(tensor[1], torch.ones(4))
    assert tensor[0, 2] == 5


COPIES: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "clone": (lambda: half().clone(), "xx.."),
    "clone of a column": (lambda: half().view(2, 2)[:, 1].clone(), "x."),
    "contiguous": (lambda: half().view(2, 2).t().contiguous(), "x.x."),
    "contiguous already": (lambda: half().contiguous(), "xx.."),
    "to a narrower type": (lambda: half().to(torch.bfloat16), "xx.."),
    "to a wider type": (lambda: half().double(), "xx.."),
    "to integers": (lambda: half().nan_to_num(1).clone(), ""),
    "to the same": (lambda: half().to(torch.float32), "xx.."),
    "reshape": (lambda: half().view(2, 2).t().reshape(4), "x.x."),
    "cat": (lambda: torch.cat([torch.ones(1), half(), torch.empty(0)]), "xxx.."),
    "cat with nothing": (lambda: torch.cat([half().view(2, 2), torch.empty(0)]), "xx.."),
    "cat along columns": (lambda: torch.cat([half().view(2, 2), torch.ones(2, 1)], dim=-1), "xxx..x"),
    "stack": (lambda: torch.stack([half(), torch.ones(4)], 1), "xxxx.x.x"),
    "all written": (lambda: half()[:2].clone(), ""),
    "copied into written memory": (lambda: torch.zeros(2, 2).copy_(half().view(2, 2)), "xx.."),
    "copied over a broadcast": (lambda: torch.zeros(2, 2).copy_(half()[1:3]), "x.x."),
    "foreach": (lambda: _FOREACH_COPY([torch.ones(4)], [half()])[0], "xx.."),
    "a gradient's clone": (lambda: half().requires_grad_().clone().detach(), "xx.."),
    "what a copy is overwritten with": (lambda: half().clone().fill_(1), ""),
}


@pytest.mark.parametrize("is_inference", [False, True], ids=["grad", "inference"])
@pytest.mark.parametrize("name", COPIES)
def test_what_a_copy_inherits(name: str, is_inference: bool) -> None:
    make, expected = COPIES[name]
    with torch.inference_mode(is_inference):
        assert flags(make()) == expected


def test_items_of_one_byte_that_are_written_by_mask_count_as_written_in_full() -> None:
    mask = torch.empty(4, dtype=torch.bool)
    mask[torch.tensor([1])] = True
    assert flags(mask) == ""


def test_memory_carries_the_flags_of_its_storage() -> None:
    tensor = torch.empty(2, 4)
    tensor[0] = 1
    memory = memory_of("x", tensor[1], "tensor")
    assert memory.undefined is not None
    assert memory.undefined.address == memory.address - 16
    assert memory.undefined.written.tolist() == [True] * 4 + [False] * 4
    assert memory_of("x", torch.ones(2)).undefined is None


def test_nothing_is_said_outside_the_block(watched: Provenance) -> None:
    with Provenance():
        inner = torch.empty(3)
        assert flags(inner) == "..."
    assert written_of(inner) is None


def test_a_block_entered_again_does_not_know_what_came_before() -> None:
    provenance = Provenance()
    with provenance:
        before = torch.empty(3)
    before[0] = 1
    with provenance:
        assert written_of(before) is None
        assert flags(torch.empty(2)) == ".."


def test_a_large_storage_counts_as_written() -> None:
    with _without_modes(), Provenance(largest_bytes=64):
        assert flags(torch.empty(16)) == "." * 16
        assert flags(torch.empty(17)) == ""


def test_training_is_as_ever() -> None:
    def losses() -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.LayerNorm(8))
        optimiser = torch.optim.AdamW(model.parameters())
        found: list[float] = []
        for _ in range(3):
            loss = model(torch.ones(4, 8)).square().sum()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            found.append(loss.item())
        assert all(written_of(parameter) is None for parameter in model.parameters())
        return found

    watched = losses()
    with _without_modes():
        assert losses() == watched


def _without_modes() -> contextlib.AbstractContextManager[Any]:
    return import_module("torch.utils._python_dispatch")._disable_current_modes()


class Labelled(torch.Tensor):
    """A subclass that torch treats as itself."""


def test_subclasses_are_left_alone() -> None:
    made = torch.empty(3).as_subclass(Labelled)
    assert written_of(made) is None
    assert written_of(torch.empty_like(made)) is None


def test_tensors_without_elements_here_are_left_alone() -> None:
    fakes = import_module("torch._subclasses.fake_tensor")
    assert written_of(torch.empty(3, device="meta")) is None
    assert written_of(torch.empty(2, 2).to_sparse()) is None
    with fakes.FakeTensorMode():
        assert written_of(torch.empty(3).fill_(1)) is None


def test_batched_by_vmap() -> None:
    def row(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x).copy_(x)

    result = torch.vmap(row)(torch.ones(3, 2))
    assert flags(result) == ""
    assert torch.equal(result, torch.ones(3, 2))


@torch.library.custom_op("provenance_test::first_half", mutates_args=())
def first_half(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    out[: x.numel() // 2] = 1
    return out


class Heeding(TorchDispatchMode):
    """Notes the operators that reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard.append(str(func))
        return func(*args, **(kwargs or {}))


def test_an_operator_written_in_python_reaches_other_modes_too() -> None:
    with _without_modes(), Heeding() as other, Provenance():
        out = first_half(torch.ones(4))
        assert flags(out) == "xx.."
    assert "provenance_test.first_half.default" in other.heard
    assert out[:2].tolist() == [1, 1]


def test_an_operator_written_in_python_under_two_blocks_is_watched_by_the_outer_one() -> None:
    with _without_modes(), Provenance(), Heeding() as other, Provenance():
        assert flags(first_half(torch.ones(4))) == "xx.."
    assert other.heard.count("provenance_test.first_half.default") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="lent only where there is no GPU")
@pytest.mark.parametrize("order", ["alone", "inside", "around"])
def test_an_operator_written_in_python_is_watched_inside(order: str) -> None:
    lent = LentCuda(targets.target("h200"))
    with _without_modes(), contextlib.ExitStack() as stack:
        parts = {"alone": [Provenance()], "inside": [lent, Provenance()], "around": [Provenance(), lent]}
        for part in parts[order]:
            stack.enter_context(part)
        device = "cpu" if order == "alone" else "cuda"
        out = first_half(torch.ones(4, device=device))
        assert flags(out) == "xx.."
        assert out.device.type == device
