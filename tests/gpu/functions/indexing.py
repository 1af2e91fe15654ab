"""Embeddings, gathers, scatters, indices, views, pieces put together, writing in place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.gpu.functions.sample import sample, strided


@sample("i64[8,1024]<50257,bf16[50257,768]")
@sample("i64[8,1024]<50257,bf16[50257,768]", backward=True)
@sample("i64[8,1024]<50257,bf16[50257,768]", dynamic=True)
def embedding(ids: Tensor, table: Tensor) -> Tensor:
    return F.embedding(ids, table)


@sample("i64[8,512]<30522,f32[30522,768],f32[512,768],f32[768],f32[768]", backward=True)
def embeddings_and_norm(ids: Tensor, table: Tensor, places: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(F.embedding(ids, table, padding_idx=0) + places, (768,), w, b)


@sample("i64[1000]<100,f32[100,32]")
def embedding_bag(ids: Tensor, table: Tensor) -> Tensor:
    return F.embedding_bag(ids, table, torch.arange(0, 1000, 20, device=ids.device), mode="sum")


@sample("f32[1000,64],i64[300,64]<1000")
@sample("f32[1000,64],i64[300,64]<1000", backward=True)
def gather(x: Tensor, at: Tensor) -> Tensor:
    return x.gather(0, at)


@sample("f32[1000,64],i64[300]<1000")
@sample("f32[1000,64],i64[300]<1000", backward=True)
def rows_by_index(x: Tensor, at: Tensor) -> Tensor:
    return x[at] * 2


@sample("f32[32,48,64],i64[10]<32,i64[10]<64")
def advanced_index(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x[a, :, b]


@sample("f32[1000,64],i64[300]<1000")
def index_select(x: Tensor, at: Tensor) -> Tensor:
    return torch.index_select(x, 0, at).relu()


@sample("f32[100,64],i64[300]<100,f32[300,64]")
@sample("f32[100,64],i64[300]<100,f32[300,64]", backward=True)
def index_add(x: Tensor, at: Tensor, rows: Tensor) -> Tensor:
    return torch.index_add(x, 0, at, rows)


@sample("f32[100,64],i64[300]<100,f32[300,64]")
def index_put(x: Tensor, at: Tensor, rows: Tensor) -> Tensor:
    return torch.index_put(x, (at,), rows, accumulate=True)


@sample("f32[100,64],i64[50]<100,f32[50,64]")
def assign_rows(x: Tensor, at: Tensor, rows: Tensor) -> Tensor:
    y = x.clone()
    y[at] = rows
    return y


@sample("f32[100,64],i64[30,64]<100,f32[30,64]")
def scatter(x: Tensor, at: Tensor, values: Tensor) -> Tensor:
    return x.scatter(0, at, values)


@sample("f32[100,64],i64[30,64]<100,f32[30,64]")
@sample("f32[100,64],i64[30,64]<100,f32[30,64]", backward=True)
def scatter_add(x: Tensor, at: Tensor, values: Tensor) -> Tensor:
    return x.scatter_add(0, at, values)


@sample("f32[100,64],i64[30,64]<100,f32[30,64]")
def scatter_largest(x: Tensor, at: Tensor, values: Tensor) -> Tensor:
    return x.scatter_reduce(0, at, values, "amax")


@sample("f32[100,64],i64[30,64]<100,f32[30,64]")
def scatter_mean(x: Tensor, at: Tensor, values: Tensor) -> Tensor:
    return x.scatter_reduce(0, at, values, "mean", include_self=False)


@sample("bf16[4096,64],i64[4096]<100")
def segments(x: Tensor, at: Tensor) -> Tensor:
    return torch.zeros(100, 64, dtype=x.dtype, device=x.device).index_add_(0, at, x)


@sample("i64[4096]<1000")
def one_hot(x: Tensor) -> Tensor:
    return F.one_hot(x, 1000).float()


@sample("f32[1024],f32[500]")
def place_in_sorted(bins: Tensor, x: Tensor) -> Tensor:
    return torch.searchsorted(bins, x) + torch.bucketize(x, bins)


@sample("f32[512,512]")
@sample("f32[512,512]", backward=True)
def triangle(x: Tensor) -> Tensor:
    return torch.tril(x) + torch.triu(x, 1) * 2


@sample("f32[128,64],f32[128,32],f32[128,16]")
@sample("f32[128,64],f32[128,32],f32[128,16]", backward=True)
@sample("f32[128,64],f32[128,32],f32[128,16]", dynamic=True)
def concatenate(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.cat((a.relu(), b * 2, c), 1)


@sample("f32[128,64],f32[128,64],f32[128,64]")
@sample("f32[128,64],f32[128,64],f32[128,64]", backward=True)
def stack(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.stack((a, b + 1, c), 1)


@sample("f32[128,96]")
@sample("f32[128,96]", backward=True)
def split(x: Tensor) -> tuple[Tensor, ...]:
    a, b, c = x.split((16, 32, 48), 1)
    return a.exp(), b.sum(1), c * 2


@sample("f32[4,3,30,30]")
@sample("f32[4,3,30,30]", backward=True)
def pad(x: Tensor) -> Tensor:
    return F.pad(x, (1, 2, 3, 4), value=0.5) * 2


@sample("f32[4,3,30,30]")
@sample("f32[4,3,30,30]", backward=True)
def reflected_pad(x: Tensor) -> Tensor:
    return F.pad(x, (2, 2, 2, 2), mode="reflect") + F.pad(x, (2, 2, 2, 2), mode="replicate")


@sample("f32[64,33]")
def roll_and_flip(x: Tensor) -> Tensor:
    return torch.roll(x, 5, 1) + x.flip(0) + torch.rot90(x.t() @ x, 1).sum()


@sample("f32[16,8]")
def repeats(x: Tensor) -> Tensor:
    return x.repeat(3, 2) + x.repeat_interleave(2, 1).repeat(3, 1)


@sample("f32[100,30]")
@sample("f32[100,30]", backward=True)
def unfold(x: Tensor) -> Tensor:
    return x.unfold(0, 10, 5).mean(-1)


@sample("f32[64,64]")
def diagonal(x: Tensor) -> Tensor:
    return torch.diag_embed(x.diagonal()) + torch.diagonal(x, 1).sum()


@sample("f32[1024,64]")
@sample("f32[1024,64]", dynamic=True)
def write_input(x: Tensor) -> Tensor:
    x.mul_(2).add_(1)
    return x.sum(-1)


@sample("f32[1024,64]")
def write_through_view(x: Tensor) -> Tensor:
    x[:, ::2] = 0
    x.view(-1)[5:100] += 1
    return x


@sample("f32[1024,64]")
def write_made_tensor(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out[10:20] = x[:10].exp()
    out[:, 3].copy_(x[:, 5])
    return out


@sample("f32[64,64],f32[64,64]")
def write_and_return_view(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.copy_(y + 1)
    return x.t(), x[0]


@sample("f32[256,256]")
def views_only(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.view(-1, 16), x.t()


@sample("bf16[2,8,2048,64],bf16[2,8,1,64],i64[1]<2048")
def key_cache(cache: Tensor, new: Tensor, at: Tensor) -> Tensor:
    return cache.index_copy_(2, at, new)


@sample(strided((64, 32, 16), (16, 1024, 1)))
@sample(strided((64, 32, 16), (16, 1024, 1)), dynamic=True)
def reshape_that_copies(x: Tensor) -> Tensor:
    return x.reshape(64, -1) + 1


@sample("f32[64,64]")
def as_other_bits(x: Tensor) -> Tensor:
    return x.view(torch.int32) & 0x7FFFFFFF


@sample("f32[33,65]")
def made_inside(x: Tensor) -> Tensor:
    rows = torch.arange(33, device=x.device)[:, None]
    return x + rows + torch.linspace(0, 1, 65, device=x.device) + torch.eye(33, 65, device=x.device)


@sample("f32[32,100],i64[32]<100")
def mask_of_lengths(x: Tensor, lengths: Tensor) -> Tensor:
    mask = torch.arange(100, device=x.device)[None] < lengths[:, None]
    return (x * mask).sum(1) / mask.sum(1).clamp_min(1)
