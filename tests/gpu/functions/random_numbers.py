"""Random numbers and dropout: Inductor's own Philox, seeded once a graph."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.gpu.functions.sample import sample


@sample("bf16[2048,1024]")
@sample("bf16[2048,1024]", backward=True)
@sample("bf16[2048,1024]", dynamic=True)
def dropout(x: Tensor) -> Tensor:
    return F.dropout(x, 0.1, training=True)


@sample("f32[1000,100]")
def uniform(x: Tensor) -> Tensor:
    return x + torch.rand_like(x) - torch.rand(100, device=x.device)


@sample("f32[1000,100]")
def normal(x: Tensor) -> Tensor:
    return x * torch.randn_like(x) + torch.randn(1000, 1, device=x.device)


@sample("f32[100,100]")
def whole_numbers(x: Tensor) -> Tensor:
    return x + torch.randint(0, 10, (100, 100), device=x.device)


@sample("f32[1000,100]")
def coin(x: Tensor) -> Tensor:
    return torch.bernoulli(torch.sigmoid(x))


@sample("f32[64,1000]")
def gumbel_choice(x: Tensor) -> Tensor:
    noise = -torch.log(-torch.log(torch.rand_like(x) + 1e-9) + 1e-9)
    return (x + noise).argmax(-1)


@sample("f32[64,1000]")
def multinomial(x: Tensor) -> Tensor:
    return torch.multinomial(torch.softmax(x, -1), 1)


@sample("f32[1000]")
def shuffled(x: Tensor) -> Tensor:
    return x[torch.randperm(1000, device=x.device)[:500]]


@sample("bf16[8,128,256]")
@sample("bf16[8,128,256]", backward=True)
class DropoutBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(256, 512), nn.Linear(512, 256), nn.LayerNorm(256)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.dropout(self.down(self.dropout(torch.relu(self.up(x))))))


@sample("f32[8,32,16,16]", backward=True)
def dropout_of_channels(x: Tensor) -> Tensor:
    return F.dropout2d(x, 0.25, training=True)


@sample("f32[128,64]")
def leaky_random(x: Tensor) -> Tensor:
    return F.rrelu(x, training=True) + torch.empty_like(x).exponential_()
