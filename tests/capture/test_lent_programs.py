"""Ordinary training code on a lent `cuda`: the same numbers as on the CPU, and every result on the device."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from tilesight.capture.launches import EngineSession
from tilesight.capture.lent.lend import LentCuda
from tilesight.targets import target

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="lent only where there is no GPU")


@pytest.fixture
def lent() -> Iterator[LentCuda]:
    device = LentCuda(target("h200"))
    with EngineSession(90, is_pinned=True, lent=device), device:
        yield device


def recurrent(device: str) -> torch.Tensor:
    module = torch.nn.GRU(4, 5).to(device)
    return module(torch.randn(2, 3, 4).to(device))[0]


def transformer(device: str) -> torch.Tensor:
    module = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True).to(device).eval()
    with torch.inference_mode():
        return module(torch.randn(2, 3, 8).to(device)).clone()


def attention_gradient(device: str) -> torch.Tensor:
    q = torch.randn(1, 2, 4, 8).to(device).requires_grad_()
    functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    assert q.grad is not None
    return q.grad


def checkpointed(device: str) -> torch.Tensor:
    x = torch.randn(64).to(device).requires_grad_()
    result: Any = checkpoint(lambda a: functional.dropout(a.sin(), 0.5), x, use_reentrant=False)
    result.sum().backward()
    assert x.grad is not None
    return x.grad


def scaled_step(device: str) -> torch.Tensor:
    module = torch.nn.Linear(3, 3).to(device)
    optimizer = torch.optim.Adam(module.parameters(), fused=True)
    scaler = torch.amp.GradScaler(device)
    scaler.scale(module(torch.randn(2, 3).to(device)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return module.weight.detach()


def transformed(device: str) -> torch.Tensor:
    x = torch.randn(4, 3).to(device)
    return torch.func.vmap(torch.func.grad(lambda row: (row**3).sum()))(x)


def batches(device: str) -> torch.Tensor:
    loader = DataLoader(TensorDataset(torch.arange(10.0)), batch_size=5)
    return torch.stack([batch.to(device, non_blocking=True) for (batch,) in loader])


def reloaded(device: str) -> torch.Tensor:
    source, copy = (torch.nn.Linear(3, 3).to(device) for _ in range(2))
    file = io.BytesIO()
    torch.save(source.state_dict(), file)
    file.seek(0)
    copy.load_state_dict(torch.load(file, map_location=device))
    return copy.weight.detach()


def materialised(device: str) -> torch.Tensor:
    with torch.device("meta"):
        module = torch.nn.Linear(3, 3)
    weight = module.to_empty(device=device).weight
    torch.nn.init.normal_(weight)
    return weight.detach()


def indexed(device: str) -> torch.Tensor:
    x = torch.arange(8.0).to(device)
    x[0] = 9
    return torch.cat([x[torch.tensor([1, 2])], x[x > 5]])


PROGRAMS = (
    recurrent, transformer, attention_gradient, checkpointed, scaled_step, transformed, batches, reloaded,
    materialised, indexed,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_computes_there_what_it_does_here(lent: LentCuda, program: Callable[[str], torch.Tensor]) -> None:
    results: list[torch.Tensor] = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*GradScaler.*")
            results.append(program(device))
    here, there = results
    assert (here.device.type, there.device.type) == ("cpu", "cuda")
    assert torch.equal(here, there.cpu())


def test_a_hook_and_autograd_grad_give_gradients_there(lent: LentCuda) -> None:
    seen: list[bool] = []
    x = torch.randn(3, device="cuda", requires_grad=True)
    x.register_hook(lambda gradient: seen.append(gradient.is_cuda))
    (gradient,) = torch.autograd.grad((x * x).sum(), x)
    assert torch.equal(gradient, 2 * x)
    assert gradient.is_cuda and seen == [True]


def test_tensors_on_two_devices_are_not_close(lent: LentCuda) -> None:
    x = torch.ones(3, device="cuda")
    torch.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="cuda:0 != cpu"):
        torch.testing.assert_close(x, x.cpu())


def test_a_tensor_prints_its_device(lent: LentCuda) -> None:
    assert repr(torch.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"
    assert repr(torch.ones(2)) == "tensor([1., 1.])"
