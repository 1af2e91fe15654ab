"""What a patch keeps of a swap, and of what it left as it is."""

from __future__ import annotations

from dataclasses import dataclass

import torch

TOLERANCE = 1e-5
"""Largest difference, beside numbers of about 1, between what a module computes on trial and what it is taken for."""


@dataclass(frozen=True)
class Swap:
    """One place where a hand-written kernel stands now.

    Args:
        kernel: its name in `tilesight.kernels`
        where: the module's name in the model, or the function's full name
        instead_of: the class or the kind of function
        note: what else there is to know; may be empty
    """

    kernel: str
    where: str
    instead_of: str
    note: str = ""


@dataclass(frozen=True)
class Left:
    """Something that looked known and was left as it is."""

    where: str
    reason: str


def is_near(got: object, wanted: torch.Tensor) -> bool:
    """Whether a trial gave what was wanted: a tensor of the same shape and dtype, the same numbers."""
    if not isinstance(got, torch.Tensor) or got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    return torch.allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)
