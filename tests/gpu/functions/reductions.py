"""Sums, extremes, arguments of extremes, variances, norms of vectors, scans, sorts."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.gpu.functions.sample import sample


@sample("f32[4096,1024]")
@sample("f32[4096,1024]", backward=True)
@sample("f32[4096,1024]", dynamic=True)
def row_sum(x: Tensor) -> Tensor:
    return x.sum(-1)


@sample("f32[4096,1024]")
@sample("bf16[100,32768]")
def column_sum(x: Tensor) -> Tensor:
    return x.sum(0)


@sample("f32[10000000]")
@sample("bf16[1000000]", backward=True)
def sum_of_all(x: Tensor) -> Tensor:
    return x.sum()


@sample("bf16[64,128,1000]")
@sample("bf16[64,128,1000]", backward=True)
def mean_of_middle(x: Tensor) -> Tensor:
    return x.mean(1)


@sample("f32[512,70000]")
def long_row_maximum(x: Tensor) -> Tensor:
    return x.amax(-1)


@sample("f32[4096,333]")
def extremes(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.aminmax(x, dim=-1)


@sample("f32[2048,5000]")
def argument_of_maximum(x: Tensor) -> Tensor:
    return x.argmax(-1)


@sample("f32[300,700]")
def value_and_place(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.max(0)


@sample("f32[1024,2048]")
@sample("f32[1024,2048]", backward=True)
def standard_deviation(x: Tensor) -> Tensor:
    return x.std(-1)


@sample("f32[1024,2048]")
def mean_and_variance(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.var_mean(x, dim=-1, correction=0)


@sample("f32[1024,512]")
@sample("f32[1024,512]", backward=True)
def length_of_rows(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1)


@sample("f32[128,64]")
def product(x: Tensor) -> Tensor:
    return x.prod(-1)


@sample("bool[1000,1000]")
def any_and_all(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.any(-1), x.all(0)


@sample("f32[1024,1000]")
@sample("f32[1024,1000]", backward=True)
@sample("f32[1024,1000]", dynamic=True)
def log_of_sum(x: Tensor) -> Tensor:
    return torch.logsumexp(x, -1)


@sample("bf16[4096,4096]")
def scale_for_fp8(x: Tensor) -> Tensor:
    return x.abs().amax().clamp_min(1e-12) / 448.0


@sample("f32[1024,1024]")
@sample("f32[1024,1024]", backward=True)
def running_sum(x: Tensor) -> Tensor:
    return x.cumsum(-1)


@sample("f32[64,100000]")
def long_running_sum(x: Tensor) -> Tensor:
    return torch.cumsum(x, 1) * 2


@sample("f32[256,512]")
def running_product(x: Tensor) -> Tensor:
    return torch.cumprod(x, 0)


@sample("f32[128,300]")
def running_maximum(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cummax(x, -1)


@sample("f32[128,300]")
def running_log_of_sum(x: Tensor) -> Tensor:
    return torch.logcumsumexp(x, -1)


@sample("f32[256,100]")
def small_sort(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.sort(x, stable=True, dim=-1)


@sample("f32[16,100000]")
def large_sort(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.sort(x, -1, descending=True)


@sample("f32[64,32000]")
@sample("f32[64,32000]", backward=True)
def largest_few(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.topk(torch.softmax(x, -1), 8, -1)


@sample("f32[1000,20]")
def median(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.median(-1)


@sample("i64[10000]<64")
def counts(x: Tensor) -> Tensor:
    return torch.zeros(64, dtype=torch.int64, device=x.device).scatter_add_(0, x, torch.ones_like(x))


@sample("f32[8,16,4000]")
def nested_reductions(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)).square().sum((-1, -2)).sqrt().mean()
