"""A lent `cuda`: what a script sees of it, what moves, and that nothing of it is left behind."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.testing

from tests.kernels.basic import add_kernel
from tilesight.capture.backend import active_driver
from tilesight.capture.launches import EngineSession
from tilesight.capture.lent.lend import LentCuda
from tilesight.capture.lent.marks import Marks
from tilesight.errors import UnsupportedError
from tilesight.targets import target

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="lent only where there is no GPU")

CUDA = torch.device("cuda", 0)
H200 = target("h200")
add: Any = add_kernel


@pytest.fixture
def lent() -> Iterator[LentCuda]:
    device = LentCuda(H200)
    with EngineSession(90, is_pinned=True, lent=device), device:
        yield device


MAKERS = {
    "a factory": lambda: torch.ones(3, device="cuda"),
    "cuda:0": lambda: torch.ones(3, device="cuda:0"),
    "a device object": lambda: torch.ones(3, device=torch.device("cuda")),
    "a literal": lambda: torch.tensor([1.0, 1.0, 1.0], device="cuda"),
    "as_tensor": lambda: torch.as_tensor([1.0, 1.0, 1.0], device="cuda"),
    "to a name": lambda: torch.ones(3).to("cuda"),
    "to an index": lambda: torch.ones(3).to(0),
    "to with a dtype": lambda: torch.ones(3, dtype=torch.float64).to("cuda", torch.float32),
    "to by keyword": lambda: torch.ones(3).to(device="cuda", non_blocking=True),
    "to another tensor's": lambda: torch.ones(3).to(torch.zeros(1, device="cuda")),
    "cuda()": lambda: torch.ones(3).cuda(),
    "cuda(0)": lambda: torch.ones(3).cuda(0),
    "type": lambda: torch.ones(3, dtype=torch.float64).type("torch.cuda.FloatTensor"),
    "like": lambda: torch.ones_like(torch.zeros(3), device="cuda"),
    "like a lent one": lambda: torch.ones_like(torch.zeros(3, device="cuda")),
    "new": lambda: torch.zeros(1, device="cuda").new_ones(3),
    "arithmetic": lambda: torch.zeros(3, device="cuda") + 1,
    "a view": lambda: torch.ones(2, 3, device="cuda")[1],
    "a view of a parameter": lambda: torch.nn.Parameter(torch.ones(2, 3, device="cuda"))[1],
    "detach": lambda: torch.ones(3, device="cuda", requires_grad=True).detach(),
    "data": lambda: torch.ones(3, device="cuda", requires_grad=True).data,
    "a copy": lambda: copy.deepcopy(torch.ones(3, device="cuda")),
    "numpy": lambda: torch.from_numpy(torch.ones(3).numpy()).cuda(),
    "pinned": lambda: torch.ones(3).pin_memory().to("cuda", non_blocking=True),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_tensor_put_there_says_so(lent: LentCuda, maker: str) -> None:
    tensor = MAKERS[maker]()
    assert (tensor.is_cuda, tensor.is_cpu, tensor.device, tensor.get_device()) == (True, False, CUDA, 0)
    assert tensor.type() == "torch.cuda.FloatTensor"
    assert tensor.tolist() == [1.0, 1.0, 1.0]


STAYERS = {
    "a factory": lambda: torch.ones(3),
    "cpu": lambda: torch.ones(3, device="cuda").cpu(),
    "to": lambda: torch.ones(3, device="cuda").to("cpu"),
    "to with a dtype": lambda: torch.ones(3, device="cuda").to("cpu", torch.float64).float(),
    "like": lambda: torch.ones_like(torch.zeros(3, device="cuda"), device="cpu"),
    "new": lambda: torch.zeros(1, device="cuda").new_ones(3, device="cpu"),
    "in place": lambda: torch.zeros(3).copy_(torch.ones(3, device="cuda")),
    "out": lambda: torch.add(torch.zeros(3, device="cuda"), 1, out=torch.empty(3)),
}


@pytest.mark.parametrize("maker", STAYERS)
def test_a_tensor_of_the_cpu_stays_one(lent: LentCuda, maker: str) -> None:
    tensor = STAYERS[maker]()
    assert (tensor.is_cuda, tensor.is_cpu, tensor.device) == (False, True, torch.device("cpu"))
    assert tensor.tolist() == [1.0, 1.0, 1.0]


def test_moving_copies_and_staying_does_not(lent: LentCuda) -> None:
    here = torch.zeros(3)
    there = here.cuda()
    back = there.cpu()
    there += 1
    assert here.tolist() == back.tolist() == [0.0, 0.0, 0.0]
    for same in (there.cuda(), there.to("cuda"), there.to(CUDA, torch.float32)):
        assert same.data_ptr() == there.data_ptr()
    assert here.to("cpu").data_ptr() == here.data_ptr()


def test_a_gradient_goes_through_a_move(lent: LentCuda) -> None:
    weight = torch.ones(3, requires_grad=True)
    (weight.cuda() * torch.tensor([1.0, 2.0, 3.0], device="cuda")).sum().cpu().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [1.0, 2.0, 3.0]


def test_default_devices(lent: LentCuda) -> None:
    with torch.device("cuda"):
        assert torch.ones(3).device == CUDA
    torch.set_default_device("cuda")
    assert torch.ones(3).device == torch.ones(3).to("cuda").device == torch.tensor(1.0).device == CUDA
    assert torch.ones(3, device="cpu").device == torch.device("cpu")


def test_one_gpu_is_lent(lent: LentCuda) -> None:
    assert (torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device()) == (True, 1, 0)
    for call in (lambda: torch.ones(3, device="cuda:1"), lambda: torch.ones(3).cuda(1), lambda: torch.ones(3).to(1)):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            call()


def test_torch_cuda_answers_as_the_target(lent: LentCuda) -> None:
    properties = torch.cuda.get_device_properties("cuda")
    assert torch.cuda.get_device_name() == properties.name == H200.device_name
    assert torch.cuda.get_device_capability(0) == (9, 0)
    assert properties.multi_processor_count == H200.sms
    driver: Any = triton.runtime.driver.active
    assert driver.get_active_torch_device() == CUDA
    assert driver.get_current_target().backend == "cuda"
    assert driver.utils.get_device_properties(driver.get_current_device())["multiprocessor_count"] == H200.sms
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().synchronize()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def test_a_module_and_its_optimizer_train_there_as_on_the_cpu(lent: LentCuda) -> None:
    torch.manual_seed(0)
    here = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 2))
    there = copy.deepcopy(here).to("cuda")
    assert {tensor.device for tensor in there.state_dict().values()} == {CUDA}
    assert all(isinstance(parameter, torch.nn.Parameter) for parameter in there.parameters())
    data = torch.randn(4, 8)
    for module, x in ((here, data), (there, data.cuda())):
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            assert {p.grad.device for p in module.parameters() if p.grad is not None} == {x.device}
            optimizer.step()
    for mine, theirs in zip(here.parameters(), there.cpu().parameters(), strict=True):
        assert torch.equal(mine, theirs)


class AddOnDevice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda and y.is_cuda
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        add[(1,)](x, y, out, x.numel(), BLOCK=64)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (gradient,) = gradients
        (x,) = ctx.saved_tensors
        assert gradient.device == x.device == CUDA
        doubled = torch.empty(gradient.shape, device="cuda")
        add[(1,)](gradient, gradient, doubled, gradient.numel(), BLOCK=64)
        return doubled, gradient


def test_a_kernel_in_an_autograd_function(lent: LentCuda) -> None:
    x, y = (torch.randn(50, device="cuda", requires_grad=True) for _ in range(2))
    AddOnDevice.apply(x, y).backward(torch.full((50,), 3.0, device="cuda"))
    assert x.grad is not None and y.grad is not None
    assert (x.grad.unique().tolist(), y.grad.unique().tolist()) == ([6.0], [3.0])
    assert x.grad.is_cuda and y.grad.is_cuda


def test_a_custom_operator_sees_the_device_inside(lent: LentCuda) -> None:
    with torch.library._scoped_library("lent_test", "FRAGMENT"):

        @torch.library.custom_op("lent_test::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            assert x.is_cuda
            zeros = torch.zeros(x.shape, device="cuda")
            assert zeros.device == x.device
            return x + x + zeros

        result = twice(torch.ones(3, device="cuda"))
        assert result.is_cuda
        assert result.tolist() == [2.0, 2.0, 2.0]


def test_random_numbers_come_from_a_seed(lent: LentCuda) -> None:
    generator = torch.Generator(device="cuda")
    assert generator.device == CUDA
    assert torch.Generator().device == torch.device("cpu")
    drawn: list[list[float]] = []
    for seed in (
        lambda: torch.manual_seed(5),
        lambda: torch.cuda.manual_seed(5),
        lambda: torch.cuda.manual_seed_all(5),
    ):
        seed()
        drawn.append(torch.randn(3, device="cuda").tolist())
    drawn.append(torch.randn(3, device="cuda", generator=generator.manual_seed(5)).tolist())
    assert drawn[1:] == drawn[:-1]


def test_autocast_has_the_dtype_it_names(lent: LentCuda) -> None:
    x = torch.randn(4, 4, device="cuda")
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype=dtype):
            assert (x @ x).dtype == dtype
            assert torch.is_autocast_enabled("cuda")
    with torch.autocast(device_type="cuda"):
        assert (x @ x).dtype == torch.float16
    assert not torch.is_autocast_enabled("cuda")


def test_a_thread_has_the_device_too(lent: LentCuda) -> None:
    seen: list[torch.device] = []
    thread = threading.Thread(target=lambda: seen.append(torch.ones(3, device="cuda").device))
    thread.start()
    thread.join()
    assert seen == [CUDA]


def test_a_checkpoint_is_loaded_where_it_is_asked_for(lent: LentCuda) -> None:
    file = io.BytesIO()
    torch.save({"w": torch.ones(3, device="cuda")}, file)
    for place, device in (("cuda", CUDA), ("cpu", torch.device("cpu"))):
        file.seek(0)
        assert torch.load(file, map_location=place)["w"].device == device


def test_times_are_told_to_be_the_cpus_once(lent: LentCuda, capsys: pytest.CaptureFixture[str]) -> None:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) == start.elapsed_time(end) >= 0
    with pytest.raises(RuntimeError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)
    assert capsys.readouterr().err.count("times this script reads are those of this CPU") == 1


def test_do_bench_runs_once_and_says_whose_time_it_is(lent: LentCuda, capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[int] = []
    for _ in range(2):
        time_ms = triton.testing.do_bench(lambda: runs.append(1), warmup=1, rep=1)
        assert isinstance(time_ms, float) and time_ms > 0
    quantiles: Any = triton.testing.do_bench(lambda: None, quantiles=[0.5, 0.2, 0.8])
    assert len(quantiles) == 3
    assert len(runs) == 2
    assert capsys.readouterr().err.count("say nothing about a GPU") == 1


def test_what_cannot_be_lent_says_so(lent: LentCuda, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnsupportedError, match="CUDA graphs"):
        torch.cuda.CUDAGraph()
    assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated() == 0
    assert capsys.readouterr().err.count("memory figures are 0") == 1


def test_it_is_said_once_that_the_tensors_live_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    with LentCuda(H200):
        torch.ones(3)
        assert capsys.readouterr().err == ""
        torch.ones(3, device="cuda")
        torch.ones(3).cuda()
    assert capsys.readouterr().err.count("no GPU here") == 1


def test_nothing_is_left_behind() -> None:
    names = {owner: dict(vars(owner)) for owner in (torch, torch.cuda, torch.Tensor, torch.autocast, threading.Thread)}
    driver = active_driver()
    device = LentCuda(H200)
    with EngineSession(90, is_pinned=True, lent=device), device:
        torch.set_default_device("cuda")
        tensor = torch.ones(3)
    for owner, before in names.items():
        changed = {name for name, value in vars(owner).items() if value is not before.get(name)}
        assert changed <= {"_GLOBAL_DEVICE_CONTEXT"}, owner
        assert before.keys() <= vars(owner).keys()
    assert tensor.device == torch.ones(1).device == torch.device("cpu")
    assert active_driver() is driver
    assert not torch.cuda.is_available()


def test_marks_forget_dead_storages() -> None:
    marks = Marks()
    kept = torch.empty(1)
    marks.put(kept, on_lent=True)
    for _ in range(5000):
        marks.put(torch.empty(1), on_lent=True)
    assert kept in marks
    assert len(marks._held) < 2500
