"""Functional collectives, left as calls between the generated kernels: two ranks that are not there."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from tests.gpu.functions.sample import sample

RANKS = 2


def _group() -> str:
    """The name of a process group that talks to no one."""
    if not dist.is_initialized():
        from torch.testing._internal.distributed.fake_pg import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    return dist.distributed_c10d._get_default_group().group_name


GROUP = _group() if dist.is_available() else ""


def _waited(x: Tensor) -> Tensor:
    return torch.ops._c10d_functional.wait_tensor(x)


@sample("bf16[256,128],bf16[128,256]")
def all_reduce(x: Tensor, w: Tensor) -> Tensor:
    return _waited(torch.ops._c10d_functional.all_reduce(x @ w, "sum", GROUP)) + 1


@sample("f32[128,64]")
def all_gather(x: Tensor) -> Tensor:
    return _waited(torch.ops._c10d_functional.all_gather_into_tensor(x * 2, RANKS, GROUP)).relu()


@sample("f32[128,64]")
def reduce_scatter(x: Tensor) -> Tensor:
    return _waited(torch.ops._c10d_functional.reduce_scatter_tensor(x.exp(), "sum", RANKS, GROUP)) * 2


@sample("f32[128,64]")
def all_to_all(x: Tensor) -> Tensor:
    halves = [x.shape[0] // RANKS] * RANKS
    return _waited(torch.ops._c10d_functional.all_to_all_single(x + 1, halves, halves, GROUP)) * 2


@sample("f32[128,64],f32[64,64],f32[64,64]")
def sharded_mlp(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    partial = torch.relu(x @ up) @ down
    return torch.softmax(_waited(torch.ops._c10d_functional.all_reduce(partial, "sum", GROUP)), -1)
