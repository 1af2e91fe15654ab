"""Operators that Inductor does not write itself: custom ones, kernels of one's own, control flow, graph breaks."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton
from torch.utils.checkpoint import checkpoint

from tests.gpu.functions.sample import sample

unexported: Any = torch  # what torch has and does not export


@torch.library.custom_op("tilesight_corpus::double_plus", mutates_args=())
def double_plus(x: Tensor, y: Tensor) -> Tensor:
    return x * 2 + y


@double_plus.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x)


double_plus.register_autograd(lambda ctx, gradient: (gradient * 2, gradient))


@torch.library.custom_op("tilesight_corpus::add_into", mutates_args=("x",))
def add_into(x: Tensor, y: Tensor) -> None:
    x.add_(y)


@sample("f32[256,256],f32[256,256]")
@sample("f32[256,256],f32[256,256]", backward=True)
@sample("f32[256,256],f32[256,256]", dynamic=True)
def with_custom_op(x: Tensor, y: Tensor) -> Tensor:
    return double_plus(x.relu(), y).exp()


@sample("f32[256,256],f32[256,256]")
def with_mutating_op(x: Tensor, y: Tensor) -> Tensor:
    z = x * 2
    add_into(z, y)
    return z + 1


@triton.jit
def scale_kernel(x_ptr, y_ptr, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, at < n) * factor, at < n)


@triton.autotune([triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024}, num_warps=8)], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.exp(tl.load(x_ptr + at, at < n)), at < n)


def _scaled(x: Tensor, factor: float) -> Tensor:
    y = torch.empty_like(x)
    n = x.numel()
    wrap_triton(scale_kernel)[(triton.cdiv(n, 1024),)](x, y, factor, n, BLOCK=1024)
    return y


scaled: Any = triton_op("tilesight_corpus::scaled", _scaled, mutates_args=())
scaled.register_autograd(
    lambda ctx, gradient: (gradient * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


@sample("f32[100000]")
@sample("f32[100000]", backward=True)
@sample("f32[100000]", dynamic=True)
def with_triton_op(x: Tensor) -> Tensor:
    return scaled(x + 1, 0.5).relu()


@sample("f32[100000]")
@sample("f32[1000,100]", dynamic=True)
def with_own_kernel(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    kernel: Any = scale_kernel
    kernel[(triton.cdiv(x.numel(), 512),)](x, y, 3.0, x.numel(), BLOCK=512)
    return y + x


@sample("f32[100000]")
def with_tuned_kernel(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y * 2


@sample("f32[128,64],bool[]")
def conditional(x: Tensor, is_large: Tensor) -> Tensor:
    return torch.cond(is_large, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))


@sample("f32[128,64]")
@sample("f32[128,64]", backward=True)
def with_graph_break(x: Tensor) -> Tensor:
    y = torch.relu(x) + 1
    torch._dynamo.graph_break()
    return y * y.sum()


@sample("f32[64,64]")
def with_two_breaks(x: Tensor) -> Tensor:
    x = x.exp()
    torch._dynamo.graph_break()
    x = x / x.sum(-1, keepdim=True)
    torch._dynamo.graph_break()
    return x @ x.t()


@sample("f32[64,64]")
@sample("f32[64,64]", backward=True)
def complex_numbers(x: Tensor) -> Tensor:
    return torch.fft.fft(x).abs() * 2


@sample("f32[64,64]")
def complex_rotation(x: Tensor) -> Tensor:
    z = torch.view_as_complex(x.view(64, 32, 2))
    return torch.view_as_real(z * torch.polar(torch.ones_like(x[:, :32]), x[:, 32:])).flatten(1)


@sample("f32[64,64],f32[64,64],f32[64]", backward=True)
def checkpointed(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    def inner(x: Tensor) -> Tensor:
        return F.gelu(F.layer_norm(x @ w, (64,), b))

    return checkpoint(inner, x, use_reentrant=False)


@sample("f32[64,64]")
def linear_algebra(x: Tensor) -> Tensor:
    gram = x @ x.t() + 64 * torch.eye(64, device=x.device)
    return torch.linalg.solve(gram, x) + torch.linalg.cholesky(gram)


@sample("f32[32,100],f32[40,100]")
@sample("f32[32,100],f32[40,100]", backward=True)
def distances(x: Tensor, y: Tensor) -> Tensor:
    return torch.cdist(x, y)


@sample("f32[100,64],f32[100,64],f32[100,64],f32[100,64]")
def adam_step(weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor) -> Tensor:
    first.lerp_(gradient, 0.1)
    second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    return weight.sub_(1e-3 * first / (second.sqrt() + 1e-8))


@sample(",".join(["f32[64,64]"] * 8))
def step_of_many(*tensors: Tensor) -> Any:
    weights, gradients = list(tensors[:4]), list(tensors[4:])
    unexported._foreach_mul_(weights, 0.99)
    return unexported._foreach_add(weights, gradients, alpha=-0.1)


@sample("f32[256,64],f32[64,64]")
@sample("f32[256,64],f32[64,64]", backward=True)
def autocast(x: Tensor, w: Tensor) -> Tensor:
    with torch.autocast("cuda", torch.bfloat16):
        return torch.softmax(x @ w, -1)


@sample("f32[64,32]")
def gradient_inside(x: Tensor) -> Tensor:
    return torch.func.grad(lambda x: (x.sin() * x).sum())(x)


@sample("f32[16,32],f32[32,32]")
def mapped_over_rows(x: Tensor, w: Tensor) -> Tensor:
    return torch.func.vmap(lambda row: torch.tanh(w @ row))(x)
