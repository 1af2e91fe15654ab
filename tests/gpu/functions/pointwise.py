"""Element by element: arithmetic, activations, conversions, broadcasts, layouts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.gpu.functions.sample import sample, strided

PAIR = "f32[1024,1024],f32[1024,1024]"


@sample("f32[100000],f32[100000]")
@sample("f32[100000],f32[100000]", backward=True)
@sample("f32[1000,100],f32[1000,100]", dynamic=True)
def add_relu(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x + y)


@sample("bf16[4096,1024]")
@sample("bf16[4096,1024]", backward=True)
def gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


@sample("f16[4096,1024]")
@sample("f16[4096,1024]", backward=True)
def gelu_by_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


@sample("bf16[2048,4096],bf16[2048,4096]")
@sample("bf16[2048,4096],bf16[2048,4096]", backward=True)
@sample("bf16[2048,4096],bf16[2048,4096]", dynamic=True)
def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


@sample("bf16[2048,8192]", backward=True)
def geglu_of_halves(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return F.gelu(a) * b


@sample("f32[333,777]")
@sample("f32[333,777]", backward=True)
def activations(x: Tensor) -> tuple[Tensor, ...]:
    return F.elu(x), F.selu(x), F.softplus(x), F.mish(x), F.hardswish(x), F.leaky_relu(x, 0.2), F.logsigmoid(x)


@sample("f32[1000003]")
def transcendental(x: Tensor) -> Tensor:
    return torch.exp(torch.sin(x)) + torch.log1p(x.abs()) * torch.tanh(x) - torch.erf(x) + torch.rsqrt(x * x + 1)


@sample("f64[100000]")
def double_transcendental(x: Tensor) -> Tensor:
    return torch.cos(x).pow(3) + torch.atan2(x, x + 1) + torch.expm1(x)


@sample("f32[1024,1],f32[1,1024]")
@sample("f32[1024,1],f32[1,1024]", backward=True)
@sample("f32[1024,1],f32[1,1024]", dynamic=True)
def outer_sum(x: Tensor, y: Tensor) -> Tensor:
    return (x + y) * 2 - 1


@sample("f32[64,128,56,56],f32[128]")
def bias_of_channels(x: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(x + bias[None, :, None, None])


@sample(strided((1024, 512), (1, 1024)), "f32[1024,512]")
def transposed_and_dense(x: Tensor, y: Tensor) -> Tensor:
    return x * y + x


@sample(strided((512, 512), (1024, 2)))
def every_other_column(x: Tensor) -> Tensor:
    return x.sigmoid()


@sample(PAIR)
def clamp_and_where(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x > y, x.clamp(-1, 1), y.clamp_min(0))


@sample("i32[100000],i32[100000]")
def integer_arithmetic(x: Tensor, y: Tensor) -> Tensor:
    return (x * 3 + y) % 17 + torch.div(x, 5, rounding_mode="floor") + (x & y) + (x << 2)


@sample("i64[1000,1000]<1000")
def wide_integers(x: Tensor) -> Tensor:
    return torch.bitwise_xor(x, x >> 3) - x.neg()


@sample("bool[4096,256],bool[4096,256]")
def logic(a: Tensor, b: Tensor) -> Tensor:
    return (a & ~b) | (a ^ b)


@sample("bf16[1024,1024]")
def conversions(x: Tensor) -> tuple[Tensor, ...]:
    return x.float() * 2, x.half(), x.to(torch.int32), x > 0, x.double()


@sample("f32[1000,1000]")
def special_functions(x: Tensor) -> Tensor:
    y = x.abs() + 0.5
    return torch.lgamma(y) + torch.special.i0(x) + torch.special.erfinv(x.tanh()) + torch.digamma(y)


@sample("f32[4096,100]")
def nan_to_number(x: Tensor) -> Tensor:
    return torch.nan_to_num(x / x.round(), nan=0.0, posinf=1.0) + torch.isnan(x).float()


@sample("f32[2048,512],f32[2048,512],f32[2048,512]")
@sample("f32[2048,512],f32[2048,512],f32[2048,512]", backward=True)
def fused_multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.addcmul(a, b, c, value=0.5) + torch.addcdiv(a, b, c.abs() + 1)


@sample("bf16[2,16,1024,128],f32[1024,64],f32[1024,64]")
@sample("bf16[2,16,1024,128],f32[1024,64],f32[1024,64]", backward=True)
def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).to(x.dtype)


@sample("f32[8,128,128]", 0.5, 3)
def with_numbers(x: Tensor, scale: float, times: int) -> Tensor:
    for _ in range(times):
        x = x * scale + 1
    return x


@sample("f32[0,16]")
def of_no_elements(x: Tensor) -> Tensor:
    return x + 1


@sample("f32[]")
def of_one_element(x: Tensor) -> Tensor:
    return x.exp() * 2


@sample("f32[3,5,7,11,13]")
def of_five_axes(x: Tensor) -> Tensor:
    return x.permute(4, 2, 0, 3, 1) + x.permute(4, 2, 0, 3, 1).square()


@sample("f32[1000],f32[1000],f32[500,500],bf16[64]")
def unlike_sizes(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, ...]:
    return a * b, c.exp(), d + 1


@sample("f32[512,512]", backward=True)
def cubic_by_hand(x: Tensor) -> Tensor:
    return x**3 - 2 * x**2 + x.abs().sqrt()
