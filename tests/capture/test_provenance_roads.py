"""Undefined memory on every road to a kernel: launches, compiled code, the lent device."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tests.capture.flags import flags
from tilesight import targets
from tilesight.capture.enable import disable, enable
from tilesight.capture.inductor.execute import executable
from tilesight.capture.inductor.on_engine import compiled_on_engine
from tilesight.capture.launches import EngineSession
from tilesight.capture.lent.lend import LentCuda
from tilesight.capture.lent.marks import LENT_DEVICE
from tilesight.capture.provenance import Provenance
from tilesight.capture.undefined import poison_word, written_of


@pytest.fixture(autouse=True)
def watched() -> Iterator[Provenance]:
    with Provenance() as provenance:
        yield provenance


def _without_modes() -> contextlib.AbstractContextManager[Any]:
    return import_module("torch.utils._python_dispatch")._disable_current_modes()


@contextlib.contextmanager
def _both(device: LentCuda, is_inside: bool) -> Generator[None]:
    """The lent device and Provenance, which is entered last where it is inside."""
    first, last = (device, Provenance()) if is_inside else (Provenance(), device)
    with first, last:
        yield


def half() -> torch.Tensor:
    tensor = torch.empty(4)
    tensor[:2] = 7
    return tensor


@pytest.mark.skipif(torch.cuda.is_available(), reason="lent only where there is no GPU")
@pytest.mark.parametrize("is_inside", [True, False], ids=["provenance inside", "provenance around"])
def test_tensors_on_the_lent_device_are_watched(is_inside: bool) -> None:
    with _without_modes(), _both(LentCuda(targets.target("h200")), is_inside):
        tensor = torch.empty(4, device="cuda", pin_memory=False)
        assert tensor.device == LENT_DEVICE
        assert flags(tensor) == "...."
        tensor[0] = 1
        assert flags(tensor.cpu()) == "x..."
        assert flags(torch.empty(2).cuda()) == ".."
        assert flags(torch.empty_like(tensor)) == "...."
        assert flags(torch.zeros(3, device="cuda")) == ""
        assert flags(torch.empty(3, pin_memory=False).pin_memory()) == "..."


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


class Heard:
    """Keeps which arguments of each launch were undefined, as flags."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    def launch_begins(self, launch: Any) -> tuple[Any, ...]:
        self.seen.append(
            {
                memory.tensor_name: "".join("x" if each else "." for each in memory.undefined.written)
                for memory in launch.memories
                if memory.undefined is not None
            }
        )
        return ()

    def launch_ends(self, launch: Any, execution: Any, listeners: Any) -> None:
        return None


@pytest.fixture
def heard() -> Iterator[Heard]:
    observer = Heard()
    session = enable(compile_for="h200")
    session.observers.append(observer)
    yield observer
    disable()


def test_launches_carry_what_is_undefined(heard: Heard) -> None:
    source, target = half(), torch.empty(4)
    copy_kernel[(1,)](source, target, 3, BLOCK=tl.constexpr(4))
    assert heard.seen == [{"source": "xx..", "target": "...."}]
    assert torch.equal(target[:2], torch.full((2,), 7.0))
    assert flags(target)[:2] == "xx"
    assert flags(target)[3] == "."


def softmax_product(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 2, -1) @ x.t()


def compiled_twice(device: str, observer: Heard) -> None:
    """Each call's launches see buffers that nothing has written; what comes out is written and right."""
    torch._dynamo.reset()
    x = torch.randn(8, 16, device=device)
    compiled = torch.compile(softmax_product)
    for _ in range(2):
        observer.seen.clear()
        result = compiled(x)
        undefined = [each for launch in observer.seen for each in launch.values()]
        assert undefined
        assert all(set(each) == {"."} for each in undefined)
        assert written_of(result) is None
        torch.testing.assert_close(result.cpu(), softmax_product(x).cpu())


def test_the_buffers_of_compiled_code_are_undefined_until_written(heard: Heard) -> None:
    compiled_twice("cpu", heard)


@pytest.mark.skipif(torch.cuda.is_available(), reason="lent only where there is no GPU")
@pytest.mark.parametrize("is_inside", [True, False], ids=["provenance inside", "provenance around"])
def test_buffers_of_compiled_code_on_the_lent_device(is_inside: bool) -> None:
    target = targets.target("h200")
    device, observer = LentCuda(target), Heard()
    with EngineSession(90, is_pinned=True, lent=device) as session, compiled_on_engine(target):
        session.observers.append(observer)
        with _without_modes(), _both(device, is_inside):
            compiled_twice("cuda", observer)


def test_a_compiled_function_is_traced_without_the_watching(heard: Heard) -> None:
    counters = import_module("torch._dynamo.utils").counters

    def broken_in_two(x: torch.Tensor) -> torch.Tensor:
        size = int((x + 1).sum().item())
        z = torch.empty(size)
        z[:2] = 3
        return torch.cat([x, z])

    torch._dynamo.reset()
    counters.clear()
    result = torch.compile(broken_in_two)(torch.ones(2))
    assert result[:4].tolist() == [1.0, 1.0, 3.0, 3.0]
    assert counters["frames"]["total"] == 2


def test_generated_wrappers_allocate_undefined_memory() -> None:
    scope = executable("")
    tensor = scope["empty_strided_cuda"]((2, 2), (2, 1), torch.float16)
    assert flags(tensor) == "...."
    assert bool(tensor.isnan().all())
    with _without_modes():
        unwatched = scope["empty_strided_cuda"]((3,), (1,), torch.int32)
    assert unwatched.tolist() == [int(poison_word(torch.int32))] * 3
