"""Matrix multiplications with what stands before and after them, MLPs and blocks of models."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.gpu.functions.sample import sample, strided

unexported: Any = torch  # what torch has and does not export


@sample("bf16[2048,1024],bf16[1024,4096]")
@sample("f16[2048,1024],f16[1024,4096]")
@sample("f32[512,512],f32[512,512]")
@sample("f64[256,256],f64[256,256]")
@sample("bf16[2048,1024],bf16[1024,4096]", backward=True)
@sample("bf16[2048,1024],bf16[1024,4096]", dynamic=True)
@sample("bf16[2048,1024],bf16[1024,4096]", mode="max-autotune")
@sample("bf16[2048,1024],bf16[1024,4096]", mode="max-autotune-no-cudagraphs")
def matmul(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


@sample("bf16[2048,1024],bf16[4096,1024],bf16[4096]")
@sample("bf16[2048,1024],bf16[4096,1024],bf16[4096]", backward=True)
@sample("bf16[2048,1024],bf16[4096,1024],bf16[4096]", mode="max-autotune-no-cudagraphs")
def linear_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(F.linear(x, w, b))


@sample("f32[1000,333],f32[777,333],f32[777]")
def linear_of_odd_sizes(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.linear(x, w, b).tanh()


@sample("bf16[2048,1024],bf16[1024,4096],bf16[4096,1024]")
@sample("bf16[2048,1024],bf16[1024,4096],bf16[4096,1024]", backward=True)
@sample("bf16[2048,1024],bf16[1024,4096],bf16[4096,1024]", dynamic=True)
@sample("bf16[2048,1024],bf16[1024,4096],bf16[4096,1024]", mode="reduce-overhead")
@sample("bf16[2048,1024],bf16[1024,4096],bf16[4096,1024]", mode="reduce-overhead", backward=True)
def gelu_mlp(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return F.gelu(x @ w) @ v


@sample("bf16[16,512,64],bf16[16,64,512]")
@sample("bf16[16,512,64],bf16[16,64,512]", backward=True)
@sample("bf16[16,512,64],bf16[16,64,512]", mode="max-autotune-no-cudagraphs")
def batched(x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x, y) * 0.125


@sample("f32[1,4096],f32[4096,4096]")
def of_one_row(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


@sample("f32[4096,4096],f32[4096]")
@sample("f32[4096,4096],f32[4096]", backward=True)
def matrix_and_vector(w: Tensor, x: Tensor) -> Tensor:
    return torch.mv(w, x)


@sample("f32[1000],f32[1000]")
def dot(x: Tensor, y: Tensor) -> Tensor:
    return torch.dot(x, y)


@sample("f32[512,512],f32[512,256],f32[256,512]")
@sample("f32[512,512],f32[512,256],f32[256,512]", backward=True)
def add_of_product(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(c, a, b, beta=0.5, alpha=2.0)


@sample("f32[8,128,128],f32[8,128,64],f32[8,64,128]")
def add_of_batched_product(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.baddbmm(c, a, b)


@sample("f32[32,16,64],f32[32,64,24]")
def einsum_of_heads(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("bik,bkj->bij", x, y).softmax(-1)


@sample("f32[16,32,8],f32[8,24,32]")
@sample("f32[16,32,8],f32[8,24,32]", backward=True)
def contraction(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("abc,cdb->ad", x, y)


@sample(strided((256, 512), (1, 256)), strided((512, 128), (1, 512)))
def of_transposed(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


@sample("bf16[128,1024],bf16[512,1024],f32[512,512]")
def lora(x: Tensor, down: Tensor, up: Tensor) -> Tensor:
    return (x @ down.t()).float() @ up


@sample("i8[64,128],i8[128,64]")
def of_bytes(x: Tensor, y: Tensor) -> Tensor:
    return unexported._int_mm(x, y)


@sample("bf16[64,4096],i8[4096,4096],bf16[4096]")
def weight_of_bytes(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return F.linear(x, w.to(x.dtype)) * scale


@sample("bf16[4,256,768]")
@sample("bf16[4,256,768]", backward=True)
@sample("bf16[4,256,768]", dynamic=True)
class GptBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(768), nn.LayerNorm(768)
        self.qkv, self.out = nn.Linear(768, 2304), nn.Linear(768, 768)
        self.up, self.down = nn.Linear(768, 3072), nn.Linear(3072, 768)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = (p.view(b, t, 12, 64).transpose(1, 2) for p in self.qkv(self.ln1(x)).split(c, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


@sample("bf16[2,512,1024]")
@sample("bf16[2,512,1024]", backward=True)
class LlamaBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(1024, eps=1e-5), nn.RMSNorm(1024, eps=1e-5)
        self.q, self.o = nn.Linear(1024, 1024, bias=False), nn.Linear(1024, 1024, bias=False)
        self.kv = nn.Linear(1024, 512, bias=False)
        self.gate, self.up = nn.Linear(1024, 2816, bias=False), nn.Linear(1024, 2816, bias=False)
        self.down = nn.Linear(2816, 1024, bias=False)
        self.angles = nn.Buffer(torch.randn(512, 32))

    def rotate(self, x: Tensor) -> Tensor:
        a, b = x.float().chunk(2, -1)
        cos, sin = self.angles.float().cos(), self.angles.float().sin()
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        y = self.norm1(x)
        q = self.q(y).view(b, t, 16, 64).transpose(1, 2)
        k, v = self.kv(y).view(b, t, 2, 4, 64).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(attended.transpose(1, 2).reshape(b, t, c))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@sample("bf16[512,256]")
@sample("bf16[512,256]", backward=True)
class MixtureOfExperts(nn.Module):
    """Every expert computes every token, weighted by the router's two largest."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(256, 8)
        self.up = nn.Parameter(torch.randn(8, 256, 512))
        self.down = nn.Parameter(torch.randn(8, 512, 256))

    def forward(self, x: Tensor) -> Tensor:
        weights, places = torch.topk(self.router(x).float().softmax(-1), 2, -1)
        gates = torch.zeros(x.shape[0], 8, device=x.device).scatter(1, places, weights).to(x.dtype)
        hidden = F.silu(torch.einsum("td,edh->eth", x, self.up))
        return torch.einsum("eth,ehd,te->td", hidden, self.down, gates)


@sample("f32[64,100,32]")
@sample("f32[64,100,32]", backward=True)
class Recurrent(nn.Module):
    """A gated recurrence written out over eight steps."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(32, 96), nn.Linear(32, 96)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[:, 0])
        for step in range(8):
            r, z, n = self.inner(x[:, step]).chunk(3, -1)
            hr, hz, hn = self.outer(state).chunk(3, -1)
            gate = torch.sigmoid(z + hz)
            state = (1 - gate) * torch.tanh(n + torch.sigmoid(r + hr) * hn) + gate * state
        return state


@sample("f32[128,13],i64[128,8]<1000")
@sample("f32[128,13],i64[128,8]<1000", backward=True)
class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, 16) for _ in range(8))
        self.bottom, self.top = nn.Linear(13, 16), nn.Linear(16 + 36, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        found = [table(sparse[:, at]) for at, table in enumerate(self.tables)]
        first = torch.relu(self.bottom(dense))
        both = torch.stack([first, *found], 1)
        pairs = torch.bmm(both, both.transpose(1, 2))
        rows, columns = torch.tril_indices(9, 9, offset=-1, device=dense.device)
        return torch.sigmoid(self.top(torch.cat((first, pairs[:, rows, columns]), 1)))
