"""A case: one operator on every road, as a user's file names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from tilesight.capture.inputs import TensorSpec, parse_inputs, real_inputs, spec_of
from tilesight.errors import InputError


@dataclass(frozen=True)
class Case:
    """One operator: its eager PyTorch function and the hand-written launcher to set beside it.

    Args:
        eager: takes the inputs, returns a tensor or a tuple of tensors
        hand: takes the same inputs, launches Triton kernels, returns the same; None when there is none
        inputs: a text such as "f32[100000],f32[100000]", or a function without arguments that returns
            the tensors
        reference: float64 function of the same inputs; the eager function on float64 inputs when None
        name: shown in reports; the file's name for the case when empty
    """

    eager: Callable[..., Any]
    hand: Callable[..., Any] | None = None
    inputs: str | Callable[[], Sequence[torch.Tensor]] = ""
    reference: Callable[..., Any] | None = None
    name: str = field(default="", kw_only=True)

    def make_inputs(self, seed: int = 0) -> list[Any]:
        """CPU tensors of random data, the same for the same seed.

        Raises: InputError: when the case has no inputs or their text does not parse
        """
        if callable(self.inputs):
            torch.manual_seed(seed)
            return list(self.inputs())
        if not self.inputs:
            raise InputError("the case has no inputs", expected='inputs="f32[100000],…" in tilesight.Case')
        return real_inputs(parse_inputs(self.inputs), seed)

    def specs(self) -> list[TensorSpec | Any]:
        """The inputs as TensorSpecs; a text is not turned into tensors for it."""
        if isinstance(self.inputs, str) and self.inputs:
            return list(parse_inputs(self.inputs))
        return [spec_of(value) for value in self.make_inputs()]
