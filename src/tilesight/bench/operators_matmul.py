"""Matrix products, plain and with something behind them, judged by their FLOPs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F

from tilesight import kernels
from tilesight.bench import peers
from tilesight.bench.operator_model import Draw, Operator, Shape, bytes_of

SQUARES: tuple[Shape, ...] = ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 2048, 2048), (16, 8192, 8192))
"""Rows, the axis that is summed over, columns; the last is tall and skinny."""
SMALL_PRODUCTS: tuple[Shape, ...] = ((32, 48, 64),)
ODD_PRODUCTS: tuple[Shape, ...] = ((1, 7, 5), (5, 33, 129), (65, 1001, 3))
FP8 = torch.float8_e4m3fn
FP8_SHAPES: tuple[Shape, ...] = SQUARES[:3]


def _two(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    """x [M, K] and w [K, N] scaled so that products are about 1."""
    rows, inner, columns = shape
    x, w = draw.tensors((rows, inner), (inner, columns))
    return [x, w.mul_(inner**-0.5)]


def _two_and_bias(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return [*_two(shape, draw), *draw.tensors(shape[2:])]


def _two_halves(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    """w [K, 2 N]: the gate's columns, then those that it is multiplied with."""
    rows, inner, columns = shape
    return _two((rows, inner, 2 * columns), draw)


def _two_in_fp8(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    """x [M, K] and w [K, N] with its columns dense, in e4m3, and one scale of each."""
    rows, inner, columns = shape
    x, w = draw.tensors((rows, inner), (columns, inner))
    scales = [torch.full((), value, device=draw.device) for value in (0.5, inner**-0.5)]
    return [x.to(FP8), w.to(FP8).t(), *scales]


def _matmul_bias_gelu(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(torch.addmm(bias, x, w), approximate="tanh")


def _matmul_bias_gelu_by_hand(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return kernels.matmul(x, w, bias=bias, activation="gelu_tanh")


def _matmul_swiglu(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    gate, up = (x @ w).chunk(2, -1)
    return F.silu(gate) * up


def _matmul_swiglu_by_hand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return kernels.matmul(x, w, activation="swiglu")


def _matmul_fp8(x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor) -> torch.Tensor:
    functional: Any = import_module("torch.nn.functional")
    one = functional.ScalingType.TensorWise
    return functional.scaled_mm(x, w, x_scale, one, w_scale, one, output_dtype=torch.bfloat16)


def _matmul_fp8_in_float64(
    x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor
) -> torch.Tensor:
    return x @ w * (x_scale * w_scale)


def _matmul_fp8_by_hand(x: torch.Tensor, w: torch.Tensor, x_scale: torch.Tensor, w_scale: torch.Tensor) -> torch.Tensor:
    return kernels.matmul(x, w, scale=(x_scale, w_scale))


def _fp8_bytes(inputs: Sequence[torch.Tensor]) -> int:
    """The inputs, and the output in bfloat16."""
    return bytes_of(inputs) + 2 * inputs[0].shape[0] * inputs[1].shape[1]


def _flops(products: int) -> Callable[[Shape], int]:
    """Of so many products [M, K] · [K, N]."""

    def flops(shape: Shape) -> int:
        rows, inner, columns = shape
        return 2 * products * rows * inner * columns

    return flops


def _of(name: str, inputs: Any, eager: Any, hand: Any, products: int = 1, **more: Any) -> Operator:
    shapes: dict[str, Any] = {"gpu_shapes": SQUARES, "cpu_shapes": SMALL_PRODUCTS, "odd_shapes": ODD_PRODUCTS}
    return Operator(name, inputs, eager, hand, flops=_flops(products), **{**shapes, **more})


MATMUL_OPERATORS = (
    _of("matmul", _two, torch.matmul, kernels.matmul, peers=peers.MATMUL),
    _of("matmul_bias_gelu", _two_and_bias, _matmul_bias_gelu, _matmul_bias_gelu_by_hand),
    _of("matmul_swiglu", _two_halves, _matmul_swiglu, _matmul_swiglu_by_hand, 2),
    _of(
        "matmul_fp8", _two_in_fp8, _matmul_fp8, _matmul_fp8_by_hand, reference=_matmul_fp8_in_float64,
        fewest_bytes=_fp8_bytes, gpu_shapes=FP8_SHAPES, odd_shapes=((16, 32, 48), (80, 144, 16)),
    ),
)  # fmt: skip
