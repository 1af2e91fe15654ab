"""Liger-Kernel's losses, hyper-connections and multi-layer operators, each with its mathematics."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.yardsticks.liger_cases import TF32, TF32_DOT
from benchmarks.yardsticks.operator_case import OperatorCase

ROWS, CLASSES, WIDTH = 11, 91, 24
IGNORED = -100
STREAMS = 4
SINKHORN_ROUNDS = 5
EPS = 1e-6


def _logits(dtype: torch.dtype) -> Tensor:
    return torch.randn(ROWS, CLASSES, dtype=dtype)


def _targets() -> Tensor:
    targets = torch.randint(0, CLASSES, (ROWS,))
    targets[3] = IGNORED
    return targets


def _projection(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Hidden states and the head's weight, scaled so that logits are of size one."""
    return torch.randn(ROWS, WIDTH, dtype=dtype), (torch.randn(CLASSES, WIDTH) / WIDTH**0.5).to(dtype)


def _log_probabilities(dtype: torch.dtype) -> Tensor:
    return torch.log_softmax(torch.randn(ROWS, CLASSES), -1).to(dtype)


def _probabilities(dtype: torch.dtype) -> Tensor:
    return torch.softmax(torch.randn(ROWS, CLASSES), -1).to(dtype)


def jensen_shannon(student: Tensor, teacher: Tensor) -> Tensor:
    """½ KL(P‖M) + ½ KL(Q‖M) with M = ½ (P + Q), both given as log-probabilities, mean over rows."""
    mean = torch.log(0.5 * (student.exp() + teacher.exp()))
    halves = [(each.exp() * (each - mean)).sum(-1) for each in (student, teacher)]
    return (0.5 * (halves[0] + halves[1])).mean()


def cross_entropy_cases(ops: ModuleType) -> list[OperatorCase]:
    def smooth(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """With the logits capped at ±5 and 1e-3 of the squared log-sum-exp added, which is returned too."""
        capped = 5 * torch.tanh(x / 5)
        valid = t != IGNORED
        square = 1e-3 * (torch.logsumexp(capped, -1).square() * valid).sum() / valid.sum()
        return F.cross_entropy(capped, t, label_smoothing=0.1) + square, square.detach()

    def run_smooth(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        options = (IGNORED, 1e-3, 0.1, "mean", 5.0, True)
        loss, square, *_ = ops.LigerCrossEntropyFunction.apply(x, t, None, *options)
        return loss, square.detach()

    def vocabulary_parallel(x: Tensor, t: Tensor) -> Tensor:
        return F.cross_entropy(x.flatten(0, 1), t.flatten(), reduction="none").view(t.shape)

    def ce_and_distance(student: Tensor, teacher: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        distance = 0.5 * (torch.softmax(student, -1) - torch.softmax(teacher, -1)).abs().sum(-1)
        return F.cross_entropy(student, t, reduction="none"), distance * (t != IGNORED)

    return [
        OperatorCase(
            "cross_entropy",
            lambda d: (_logits(d), _targets()),
            lambda x, t: ops.LigerCrossEntropyFunction.apply(x, t, None)[0],
            lambda x, t: F.cross_entropy(x, t),
        ),
        OperatorCase(
            "cross_entropy smoothed, capped, with z-loss",
            lambda d: (_logits(d), _targets()),
            run_smooth,
            smooth,
        ),
        OperatorCase(
            "fused_linear_cross_entropy",
            lambda d: (*_projection(d), _targets()),
            lambda x, w, t: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, t)[0],
            lambda x, w, t: F.cross_entropy(x @ w.T, t),
        ),
        OperatorCase(
            "fused_linear_scaled_cross_entropy",
            lambda d: (*_projection(d), _targets()),
            lambda x, w, t: ops.LigerFusedLinearScaledCrossEntropyFunction.apply(x, w, t),
            lambda x, w, t: F.cross_entropy(x @ w.T, t, reduction="none"),
        ),
        OperatorCase(
            "vocab_parallel_cross_entropy",
            lambda d: (torch.randn(5, 2, CLASSES, dtype=d), torch.randint(0, CLASSES, (5, 2))),
            lambda x, t: ops.LigerVocabParallelCEFunction.apply(x, t, None, IGNORED, 0.0, "pytorch", "global"),
            vocabulary_parallel,
        ),
        OperatorCase(
            "fused_ce_tvd",
            lambda d: (_logits(d), _logits(d), _targets()),
            lambda s, r, t: ops.LigerFusedCETVDFunction.apply(s, r, t),
            ce_and_distance,
            constants=(1,),
        ),
    ]


def distance_cases(ops: ModuleType) -> list[OperatorCase]:
    def projected_jsd(x: Tensor, w: Tensor, teacher_x: Tensor, teacher_w: Tensor) -> Tensor:
        return jensen_shannon(torch.log_softmax(x @ w.T, -1), torch.log_softmax(teacher_x @ teacher_w.T, -1))

    return [
        OperatorCase(
            "jsd",
            lambda d: (_log_probabilities(d), _log_probabilities(d)),
            lambda s, t: ops.LigerJSDFunction.apply(s, t),
            jensen_shannon,
            constants=(1,),
        ),
        OperatorCase(
            "kl_div",
            lambda d: (_log_probabilities(d), _probabilities(d)),
            lambda s, t: ops.LigerKLDivLossFunction.apply(s, t),
            lambda s, t: F.kl_div(s, t, reduction="batchmean"),
            constants=(1,),
        ),
        OperatorCase(
            "tvd",
            lambda d: (_probabilities(d), _probabilities(d)),
            lambda p, q: ops.LigerTVDLossFunction.apply(p, q),
            lambda p, q: 0.5 * (p - q).abs().sum() / ROWS,
            constants=(1,),
        ),
        OperatorCase(
            "fused_linear_jsd",
            lambda d: (*_projection(d), *_projection(d)),
            lambda x, w, y, v: ops.LigerFusedLinearJSDFunction.apply(x, w, y, v),
            projected_jsd,
            constants=(2, 3),
        ),
        OperatorCase(
            "fused_linear_kl_div",
            lambda d: (*_projection(d), _probabilities(d)),
            lambda x, w, t: ops.LigerFusedLinearKLDivFunction.apply(x, w, t),
            lambda x, w, t: F.kl_div(torch.log_softmax(x @ w.T, -1), t, reduction="batchmean"),
            constants=(2,),
        ),
    ]


def policy_cases(ops: ModuleType) -> list[OperatorCase]:
    """Group-relative policy optimisation: clipped ratio of token probabilities, a KL term, ragged lengths."""
    low, high, beta, temperature = 0.2, 0.4, 0.04, 0.9
    mask = torch.ones(2, 5, dtype=torch.int32)
    mask[1, 3:] = 0

    def inputs(dtype: torch.dtype) -> tuple[Any, ...]:
        logits = torch.randn(2, 6, CLASSES, dtype=dtype)
        ids = torch.randint(0, CLASSES, (2, 5))
        exact = torch.log_softmax(logits[:, :-1].float() / temperature, -1).gather(-1, ids[..., None]).squeeze(-1)
        old, reference = exact + 0.3 * torch.randn(2, 5), exact + 0.3 * torch.randn(2, 5)
        return logits, old, reference, ids, torch.randn(2)

    def loss(logits: Tensor, old: Tensor, other: Tensor, ids: Tensor, advantage: Tensor) -> Tensor:
        logp = torch.log_softmax(logits[:, :-1] / temperature, -1).gather(-1, ids[..., None]).squeeze(-1)
        ratio, gain = torch.exp(logp - old), advantage[:, None]
        token = -torch.minimum(ratio * gain, ratio.clamp(1 - low, 1 + high) * gain)
        token = token + beta * (torch.exp(other - logp) - (other - logp) - 1)
        return ((token * mask).sum(-1) / mask.sum(-1)).mean()

    def run(logits: Tensor, old: Tensor, other: Tensor, ids: Tensor, advantage: Tensor) -> Any:
        options = (temperature, beta, low, high, False)
        return ops.GrpoLossFunction.apply(logits, old, other, ids, advantage, mask, *options)[0]

    return [OperatorCase("grpo_loss", inputs, run, loss, constants=(1, 2, 4))]


def hyper_connection_cases(ops: ModuleType) -> list[OperatorCase]:
    outputs = STREAMS * STREAMS + 2 * STREAMS

    def coefficients(x: Tensor, phi: Tensor, b: Tensor, pre: Tensor, post: Tensor, res: Tensor) -> tuple[Tensor, ...]:
        """Sigmoid gates and a matrix made doubly stochastic by alternating row and column sums."""
        flat = x.flatten(-2)
        mix = (flat @ phi) * torch.rsqrt(flat.square().mean(-1, keepdim=True) + EPS)
        parts = zip(mix.split((STREAMS, STREAMS, STREAMS**2), -1), b.split((STREAMS, STREAMS, STREAMS**2)), strict=True)
        (a, a0), (c, c0), (m, m0) = parts
        matrix = torch.softmax((m * res + m0).unflatten(-1, (STREAMS, STREAMS)), -1) + EPS
        matrix = matrix / (matrix.sum(-2, keepdim=True) + EPS)
        for _ in range(SINKHORN_ROUNDS - 1):
            matrix = matrix / (matrix.sum(-1, keepdim=True) + EPS)
            matrix = matrix / (matrix.sum(-2, keepdim=True) + EPS)
        return torch.sigmoid(a * pre + a0), 2 * torch.sigmoid(c * post + c0), matrix

    def run_coefficients(*arguments: Tensor) -> Any:
        return ops.LigerMHCCoeffsFunction.apply(*arguments, True, SINKHORN_ROUNDS, EPS, 0.0, EPS, 2.0)

    def streams(dtype: torch.dtype) -> Tensor:
        return torch.randn(2, 5, STREAMS, 20, dtype=dtype)

    return [
        OperatorCase(
            "mhc coefficients",
            lambda d: (
                streams(d),
                (torch.randn(STREAMS * 20, outputs) / 8).to(d),
                torch.randn(outputs),
                *(torch.rand(()) for _ in range(3)),
            ),
            run_coefficients,
            coefficients,
            tolerances={"float32": TF32},
            why=TF32_DOT,
        ),
        OperatorCase(
            "mhc pre",
            lambda d: (streams(d), torch.rand(2, 5, STREAMS)),
            lambda x, h: ops.LigerMHCPreFunction.apply(x, h),
            lambda x, h: (x * h.unsqueeze(-1)).sum(-2),
        ),
        OperatorCase(
            "mhc post and residual",
            lambda d: (
                streams(d),
                torch.randn(2, 5, 20, dtype=d),
                torch.rand(2, 5, STREAMS),
                torch.rand(2, 5, STREAMS, STREAMS),
            ),
            lambda x, f, p, r: ops.LigerMHCPostResFunction.apply(x, f, p, r),
            lambda x, f, p, r: r @ x + p.unsqueeze(-1) * f.unsqueeze(-2),
        ),
    ]


def layer_cases(ops: ModuleType) -> list[OperatorCase]:
    def gated(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T

    def weights(dtype: torch.dtype, *shape: int) -> Tensor:
        return (torch.randn(shape) / shape[-1] ** 0.5).to(dtype)

    def mixture(x: Tensor, gate_up: Tensor, down: Tensor, index: Tensor, score: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for slot in range(index.shape[1]):
            both = torch.einsum("th,tnh->tn", x, gate_up[index[:, slot].long()])
            gate, up = both.chunk(2, -1)
            out = out + score[:, slot, None] * torch.einsum(
                "ti,thi->th", F.silu(gate) * up, down[index[:, slot].long()]
            )
        return out

    def tiled(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Any:
        """The tiling of a SwiGLU layer whose activation is Liger's."""

        def layer(module: Any, part: Tensor) -> Tensor:
            return ops.LigerSiLUMulFunction.apply(part @ gate.T, part @ up.T) @ down.T

        return ops.apply_tiled_mlp(layer, SimpleNamespace(parameters=list), x, 3)

    def layer_inputs(dtype: torch.dtype) -> tuple[Any, ...]:
        return (
            torch.randn(2, 21, 32, dtype=dtype),
            weights(dtype, 48, 32),
            weights(dtype, 48, 32),
            weights(dtype, 32, 48),
        )

    return [
        OperatorCase(
            "mlp",
            layer_inputs,
            lambda x, g, u, d: ops.LigerMLPFunction.apply(x, g, u, d),
            gated,
            tolerances={"float32": 2 * TF32},
            why=f"{TF32_DOT}; two of them in a row",
        ),
        OperatorCase("tiled_mlp", layer_inputs, tiled, gated, constants=(1, 2, 3)),
        OperatorCase(
            "fused_moe",
            lambda d: (
                torch.randn(13, 32, dtype=d),
                weights(d, 4, 80, 32),
                weights(d, 4, 32, 40),
                torch.stack([torch.randperm(4)[:2] for _ in range(13)]).int(),
                torch.softmax(torch.randn(13, 2), -1).to(d),
            ),
            lambda *arguments: ops.LigerFusedMoEFunction.apply(*arguments),
            mixture,
            tolerances={"float32": 2 * TF32},
            why=f"{TF32_DOT}; two of them in a row",
        ),
    ]
