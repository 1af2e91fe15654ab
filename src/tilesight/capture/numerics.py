"""Are the numbers right: outputs against a float64 reference, one tolerance for each dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tilesight.capture.tensors import dtype_name
from tilesight.errors import InputError

TOLERANCES = {
    "float64": 1e-12,
    "float32": 1e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}
"""Largest |output − reference| / (|reference| + rms(reference)) that counts as right: about 170 roundings
in float32, 8 in the 16-bit formats (half a unit in the last place is 6e-8, 4.9e-4 and 3.9e-3 relative).
The root mean square keeps elements that cancel to nearly nothing from being judged by their own size."""


@dataclass(frozen=True)
class Verdict:
    """How far outputs lie from the reference, and what was allowed."""

    ok: bool
    max_error: float
    tolerance: float


def reference_outputs(reference: Callable[..., Any], inputs: Sequence[Any]) -> list[torch.Tensor]:
    """The function's outputs computed in float64: floating-point inputs are widened first."""
    wide = [widened(value) for value in inputs]
    if isinstance(reference, torch.nn.Module):
        reference = reference.double()
    with torch.no_grad():
        return flatten(reference(*wide))


def widened(value: Any) -> Any:
    """A floating-point tensor in float64; anything else as it is."""
    is_float = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    return value.to(torch.float64) if is_float else value


def flatten(value: Any) -> list[torch.Tensor]:
    """The tensors in a nested result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in flatten(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in flatten(item)]
    return []


def judge(outputs: Any, reference: Sequence[torch.Tensor]) -> Verdict:
    """The worst error of all outputs, against the tolerance of the narrowest output dtype.

    Infinities must be equal and NaN must meet NaN; anything else counts as an infinite error.

    Args:
        outputs: a tensor or a nested tuple of tensors
        reference: float64 tensors of the same shapes
    Raises:  InputError: when number or shapes of the outputs differ from the reference's
    """
    tensors = flatten(outputs)
    if [tuple(t.shape) for t in tensors] != [tuple(r.shape) for r in reference]:
        raise InputError(
            f"outputs of shapes {[tuple(t.shape) for t in tensors]}",
            expected=f"the reference's {[tuple(r.shape) for r in reference]}",
        )
    worst = max((_error(t, r) for t, r in zip(tensors, reference, strict=True)), default=0.0)
    tolerance = max((tolerance_of(t.dtype) for t in tensors), default=0.0)
    return Verdict(worst <= tolerance, worst, tolerance)


def tolerance_of(dtype: torch.dtype) -> float:
    """The published tolerance of a dtype; integers and booleans must be equal."""
    return TOLERANCES.get(dtype_name(dtype), 0.0)


def _error(output: torch.Tensor, reference: torch.Tensor) -> float:
    if output.numel() == 0:
        return 0.0
    got, expected = output.to(torch.float64), reference.to(torch.float64)
    same = (got == expected) | (got.isnan() & expected.isnan())
    size = float(expected.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).square().mean().sqrt()) or 1.0
    relative = ((got - expected).abs() / (size + expected.abs())).masked_fill(same, 0.0)
    worst = relative.nan_to_num(nan=math.inf, posinf=math.inf).max()
    return float(worst)
