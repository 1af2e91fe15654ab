"""FlagGems' fused operators, which ATen has no name for, each with its mathematics."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.yardsticks.operator_case import OperatorCase

EPS = 1e-5


def fused_cases(package: Any) -> list[OperatorCase]:
    """Operators with a gradient of their own first, then the ones that only go forward."""
    return [*_trained_cases(package), *_gated_cases(package), *_inference_cases(package)]


def _rows(dtype: torch.dtype) -> Tensor:
    return torch.randn(13, 77, dtype=dtype)


def _trained_cases(gems: Any) -> list[OperatorCase]:
    def weight_norm(v: Tensor, g: Tensor) -> Tensor:
        return v * (g / v.flatten(1).norm(dim=1).view(-1, 1, 1))

    return [
        OperatorCase("silu_and_mul", lambda d: (_rows(d), _rows(d)), gems.silu_and_mul, lambda x, y: F.silu(x) * y),
        OperatorCase("gelu_and_mul", lambda d: (_rows(d), _rows(d)), gems.gelu_and_mul, lambda x, y: F.gelu(x) * y),
        OperatorCase(
            "skip_layer_norm",
            lambda d: (_rows(d), _rows(d), torch.rand(77, dtype=d), torch.randn(77, dtype=d)),
            lambda x, r, w, b: gems.skip_layer_norm(x, r, (77,), w, b, EPS),
            lambda x, r, w, b: F.layer_norm(x + r, (77,), w, b, EPS),
            has_backward=False,
        ),
        OperatorCase(
            "instance_norm",
            lambda d: (torch.randn(3, 5, 7, 9, dtype=d), torch.rand(5, dtype=d), torch.randn(5, dtype=d)),
            lambda x, w, b: gems.instance_norm(x, w, b, None, None, True, 0.1, EPS, False),
            lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=EPS),
        ),
        OperatorCase(
            "weight_norm",
            lambda d: (torch.randn(5, 7, 9, dtype=d), torch.rand(5, 1, 1, dtype=d)),
            gems.weight_norm,
            weight_norm,
        ),
        OperatorCase("outer", lambda d: (torch.randn(37, dtype=d), torch.randn(53, dtype=d)), gems.outer, torch.outer),
        OperatorCase(
            "cross_entropy_loss",
            lambda d: (_rows(d), torch.randint(0, 77, (13,))),
            lambda x, t: gems.cross_entropy_loss(x, t, label_smoothing=0.1),
            lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
        ),
    ]


def _gated_cases(gems: Any) -> list[OperatorCase]:
    """`[a, b] → act(a) · b` over the halves of the last axis, and its gradient as an operator."""
    activations: dict[str, Any] = {
        "geglu": lambda x: F.gelu(x, approximate="tanh"),
        "reglu": torch.relu,
        "swiglu": F.silu,
    }

    def gated(activation: Any) -> Any:
        def forward(x: Tensor) -> Tensor:
            first, second = x.chunk(2, -1)
            return activation(first) * second

        return forward

    def gradient(activation: Any) -> Any:
        def backward(seed: Tensor, x: Tensor) -> Tensor:
            leaf = x.detach().requires_grad_()
            return torch.autograd.grad(gated(activation)(leaf), leaf, seed.detach())[0]

        return backward

    cases: list[OperatorCase] = []
    for name, activation in activations.items():
        forward = OperatorCase(
            name,
            lambda d: (torch.randn(13, 154, dtype=d),),
            getattr(gems, name),
            gated(activation),
            has_backward=False,
        )
        backward = OperatorCase(
            f"d{name}",
            lambda d: (_rows(d), torch.randn(13, 154, dtype=d)),
            getattr(gems, f"d{name}"),
            gradient(activation),
            has_backward=False,
        )
        cases += [forward, backward]
    return cases


def _add_rms(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    total = x + residual
    return total * torch.rsqrt(total.square().mean(-1, keepdim=True) + EPS) * weight, total


def _rotate(q: Tensor, k: Tensor, angles: Tensor, place: Tensor) -> tuple[Tensor, ...]:
    cos, sin = (table[place].unsqueeze(-2) for table in (angles.cos(), angles.sin()))

    def turned(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    return turned(q), turned(k)


def _penalised(logits: Tensor, prompt: Tensor, output: Tensor, penalty: Tensor) -> Tensor:
    seen, factor = prompt | output, penalty[:, None]
    return torch.where(seen, torch.where(logits > 0, logits / factor, logits * factor), logits)


def _topk(logits: Tensor) -> tuple[Tensor, Tensor]:
    weights, indices = torch.softmax(logits, -1).topk(3, -1)
    return weights, indices


def _key_fusion(k: Tensor, kk: Tensor, a: Tensor, ka: Tensor) -> tuple[Tensor, ...]:
    """Keys of 6 heads of 8 channels: scaled, normalised a head at a time, and gated."""
    scaled = (k * kk).unflatten(-1, (6, 8))
    unit = (scaled / (scaled.square().sum(-1, keepdim=True) + 1e-12).sqrt()).flatten(-2)
    return k * (1 + (a - 1) * ka), unit, unit * a


def _inference_cases(gems: Any) -> list[OperatorCase]:
    def run_penalised(logits: Tensor, prompt: Tensor, output: Tensor, penalty: Tensor) -> Tensor:
        gems.apply_repetition_penalties(logits, prompt, output, penalty)
        return logits

    def run_moe_sum(x: Tensor) -> Tensor:
        out = torch.empty(x.shape[0], x.shape[2], dtype=x.dtype)
        gems.moe_sum(x, out)
        return out

    def run_topk(logits: Tensor) -> tuple[Tensor, Tensor]:
        weights = torch.empty(13, 3, dtype=torch.float32)
        indices, rows = (torch.empty(13, 3, dtype=torch.int32) for _ in range(2))
        gems.topk_softmax(weights, indices, rows, logits.float())
        return weights, indices

    return [
        OperatorCase(
            "fused_add_rms_norm",
            lambda d: (_rows(d), _rows(d), torch.rand(77, dtype=d)),
            lambda x, r, w: gems.fused_add_rms_norm(x, r, (77,), w, EPS),
            _add_rms,
            constants=(0, 1, 2),
            has_backward=False,
        ),
        OperatorCase(
            "apply_rotary_pos_emb",
            lambda d: (
                torch.randn(11, 6, 24, dtype=d),
                torch.randn(11, 2, 24, dtype=d),
                torch.rand(40, 12) * 6,
                torch.randint(0, 40, (11,)),
            ),
            lambda q, k, a, p: gems.apply_rotary_pos_emb(q, k, a.cos(), a.sin(), p),
            _rotate,
            constants=(0, 1, 2),
            has_backward=False,
        ),
        OperatorCase(
            "apply_repetition_penalties",
            lambda d: (_rows(d), torch.rand(13, 77) > 0.8, torch.rand(13, 77) > 0.8, 1 + torch.rand(13).to(d)),
            run_penalised,
            _penalised,
            constants=(0, 3),
            has_backward=False,
        ),
        OperatorCase(
            "moe_sum",
            lambda d: (torch.randn(13, 3, 77, dtype=d),),
            run_moe_sum,
            lambda x: x.sum(1),
            constants=(0,),
            has_backward=False,
        ),
        OperatorCase(
            "topk_softmax",
            lambda d: (torch.randn(13, 16).to(d),),
            run_topk,
            _topk,
            constants=(0,),
            has_backward=False,
        ),
        OperatorCase(
            "rwkv_ka_fusion",
            lambda d: tuple(torch.randn(shape, dtype=d) for shape in ((7, 48), (48,), (7, 48), (48,))),
            lambda k, kk, a, ka: gems.rwkv_ka_fusion(k, kk, a, ka, 6, 8),
            _key_fusion,
            constants=(0, 1, 2, 3),
            has_backward=False,
        ),
        OperatorCase(
            "rwkv_mm_sparsity",
            lambda d: (torch.relu(torch.randn(64, dtype=d)), torch.randn(64, 77, dtype=d)),
            gems.rwkv_mm_sparsity,
            lambda k, v: k @ v,
            constants=(0, 1),
            has_backward=False,
        ),
    ]
