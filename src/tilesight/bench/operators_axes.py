"""Operators along an axis of a matrix: sums, maxima and running sums."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tilesight import kernels
from tilesight.bench import peers
from tilesight.bench.operator_model import Operator, Shape, one_matrix
from tilesight.capture.numerics import Verdict, judge

REDUCED: tuple[Shape, ...] = ((131072, 1024), (16384, 8192), (1024, 131072), (8, 131072))


def _sum(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x, -1)


def _sum_by_hand(x: torch.Tensor) -> torch.Tensor:
    return kernels.sum(x, -1)


def _column_sum(x: torch.Tensor) -> torch.Tensor:
    return torch.sum(x, 0)


def _column_sum_by_hand(x: torch.Tensor) -> torch.Tensor:
    return kernels.sum(x, 0)


def _max(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = torch.max(x, -1)
    return values, places


def _max_by_hand(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(kernels.max(x, -1))


def _argmax(x: torch.Tensor) -> torch.Tensor:
    return torch.argmax(x, -1)


def _argmax_by_hand(x: torch.Tensor) -> torch.Tensor:
    return kernels.argmax(x, -1)


def _cumsum(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x, -1)


def _cumsum_by_hand(x: torch.Tensor) -> torch.Tensor:
    return kernels.cumsum(x, -1)


def judge_max(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Verdict:
    """The values are the rows' maxima, and any place that has it may be named: torch promises no more."""
    (x,), (values, places) = inputs, outputs
    wanted = x.amax(-1).double()
    return judge([values.double(), _at(x, places)], [wanted, wanted])


def judge_argmax(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Verdict:
    """Any place that has the row's maximum."""
    (x,), (places,) = inputs, outputs
    return judge(_at(x, places), [x.amax(-1).double()])


def _at(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """What lies at the places; NaN where one is none. float64, so that nothing is forgiven."""
    is_one = (places >= 0) & (places < x.shape[-1])
    found = x.gather(-1, places.where(is_one, 0).unsqueeze(-1)).squeeze(-1)
    return found.double().where(is_one, torch.nan)


AXIS_OPERATORS = (
    Operator("sum", one_matrix, _sum, _sum_by_hand, peers.SUM, gpu_shapes=REDUCED),
    Operator("column_sum", one_matrix, _column_sum, _column_sum_by_hand, gpu_shapes=REDUCED[:3]),
    Operator("max", one_matrix, _max, _max_by_hand, peers.MAX, judge=judge_max, gpu_shapes=REDUCED),
    Operator("argmax", one_matrix, _argmax, _argmax_by_hand, peers.ARGMAX, judge=judge_argmax, gpu_shapes=REDUCED),
    Operator("cumsum", one_matrix, _cumsum, _cumsum_by_hand, peers.CUMSUM, gpu_shapes=REDUCED),
)
