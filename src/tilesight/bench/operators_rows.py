"""Operators on rows: softmax and the norms, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from tilesight import kernels
from tilesight.bench import peers
from tilesight.bench.operator_model import Draw, Operator, Shape, one_matrix
from tilesight.bench.peers import EPS


def _matrix_and_weight(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return draw.tensors(shape, shape[-1:])


def _matrix_weight_and_bias(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return draw.tensors(shape, shape[-1:], shape[-1:])


def _two_and_weight(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return draw.tensors(shape, shape, shape[-1:])


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _log_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(x, -1)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, EPS)


def _rms_norm_by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return kernels.rms_norm(x, weight.shape, weight, EPS)


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, EPS)


def _layer_norm_by_hand(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return kernels.layer_norm(x, weight.shape, weight, bias, EPS)


def _add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return F.rms_norm(total, weight.shape, weight, EPS), total


def _add_rms_norm_by_hand(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return kernels.add_rms_norm(x, residual, weight, EPS)


def _add_rms_norm_backward_bytes(inputs: Sequence[torch.Tensor]) -> int:
    """The gradients of both outputs, the sum and the weight once; one gradient for x and residual, and the weight's."""
    x, _, weight = inputs
    return (4 * x.numel() + 2 * weight.numel()) * x.element_size()


_NORM = (_matrix_and_weight, _rms_norm, _rms_norm_by_hand, peers.RMS_NORM)
_LAYER_NORM = (_matrix_weight_and_bias, _layer_norm, _layer_norm_by_hand)
_ADD_NORM = (_two_and_weight, _add_rms_norm, _add_rms_norm_by_hand, peers.ADD_RMS_NORM)

ROW_OPERATORS = (
    Operator("softmax", one_matrix, _softmax, kernels.softmax, peers.SOFTMAX),
    Operator("softmax_backward", one_matrix, _softmax, kernels.softmax, peers.SOFTMAX_GRADIENT, "backward"),
    Operator("log_softmax", one_matrix, _log_softmax, kernels.log_softmax, peers.LOG_SOFTMAX),
    Operator("log_softmax_backward", one_matrix, _log_softmax, kernels.log_softmax, mode="backward"),
    Operator("rms_norm", *_NORM),
    Operator("rms_norm_backward", *_NORM, "backward", saved=(0, 1)),
    Operator("add_rms_norm", *_ADD_NORM),
    Operator("add_rms_norm_backward", *_ADD_NORM, "backward", fewest_bytes=_add_rms_norm_backward_bytes),
    Operator("layer_norm", *_LAYER_NORM, peers.LAYER_NORM),
    Operator("layer_norm_backward", *_LAYER_NORM, peers.LAYER_NORM_GRADIENT, "backward", saved=(0, 1)),
)
