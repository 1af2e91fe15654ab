"""Eight bits: fp8 casts, scaled matrix multiplications, quantised weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.gpu.functions.sample import sample

unexported: Any = torch  # what torch has and does not export
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@sample("bf16[2048,1024]")
def to_fp8(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = 448.0 / x.abs().amax().float().clamp_min(1e-12)
    return (x * scale).clamp(-448, 448).to(E4M3), scale


@sample("bf16[2048,1024]")
def to_fp8_by_row(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = 448.0 / x.abs().amax(-1, keepdim=True).float().clamp_min(1e-12)
    return (x * scale).to(E4M3), scale.reciprocal()


@sample("f32[1000,1000]")
def to_wide_fp8(x: Tensor) -> Tensor:
    return x.to(E5M2)


@sample("f8e4m3[1024,1024]")
def from_fp8(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16) * 2


@sample("f8e4m3[512,1024],f8e4m3[2048,1024],f32[],f32[]")
@sample("f8e4m3[512,1024],f8e4m3[2048,1024],f32[],f32[]", mode="max-autotune-no-cudagraphs")
def scaled_matmul(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return unexported._scaled_mm(x, w.t(), a, b, out_dtype=torch.bfloat16)


@sample("f8e4m3[512,1024],f8e4m3[2048,1024],f32[512,1],f32[1,2048]")
def scaled_matmul_by_row(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return unexported._scaled_mm(x, w.t(), a, b, out_dtype=torch.bfloat16, use_fast_accum=True)


@sample("bf16[512,1024],f8e4m3[2048,1024],f32[]")
def fp8_linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    scale = x.abs().amax().float() / 448.0
    return unexported._scaled_mm((x / scale).to(E4M3), w.t(), scale, b, out_dtype=torch.bfloat16)


@sample("bf16[64,1024],u8[2048,512],bf16[2048,1]")
def four_bit_weights(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    low, high = (packed & 0xF).to(torch.int8) - 8, (packed >> 4).to(torch.int8) - 8
    return F.linear(x, torch.stack((low, high), -1).view(2048, 1024).to(x.dtype) * scale)


@sample("f32[1024,256]")
def quantise_bytes(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(1, keepdim=True) / 127
    return torch.round(x / scale).clamp(-128, 127).to(torch.int8), scale


@sample("f32[1024,256]", backward=True)
def straight_through(x: Tensor) -> Tensor:
    scale = x.detach().abs().max() / 127
    return x + (torch.round(x / scale) * scale - x).detach()
