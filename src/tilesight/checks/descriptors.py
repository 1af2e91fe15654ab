"""Tensor descriptors that a GPU's copy unit cannot follow: rows, or a tensor, that do not begin at 16 bytes.

Source: Triton's `tl.make_tensor_descriptor` (the leading strides are multiples of 16 bytes); PTX ISA,
`tensormap.replace`, `.global_address` and `.global_stride`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.finding import Finding
from tilesight.checks.place import line_of
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Executed, Listener
from tilesight.engine.values import spread_integers
from tilesight.ir.module import Module, Operation
from tilesight.ir.types import DescriptorType, element_type, item_bits

UNIT = 16
"""Bytes."""
FIRST_ARCH = 90
"""Compute capability times ten of the first GPUs with a copy unit; before them Triton uses pointers."""


class DescriptorRules(Listener):
    """Hears the descriptors that a kernel makes; those that a launcher makes are checked by Triton itself."""

    hears_in_any_order = True

    def __init__(self) -> None:
        self._broken: dict[Operation, str] = {}

    def watched(self, module: Module) -> Collection[Operation]:
        return [operation for operation in module.walk() if operation.name == "tt.make_tensor_descriptor"]

    def after_step(self, executed: Executed) -> None:
        operation, (descriptor,) = executed.operation, executed.results
        if operation not in self._broken:
            broken = _what_is_broken(operation, descriptor, executed.active)
            if broken:
                self._broken[operation] = broken

    def findings(self, launch: Launch) -> list[Finding]:
        """One for each line."""
        hint = f"pad the rows to a multiple of {UNIT} bytes, or load with pointers and a mask"
        found = {line_of(operation, launch): text for operation, text in self._broken.items()}
        return [Finding.of_line("unlaunchable", line, text, hint) for line, text in found.items()]


def _what_is_broken(operation: Operation, descriptor: Any, active: NDArray[np.bool_] | None) -> str:
    """In words; empty where the descriptors of the programs that make them, `active`, are fine."""
    type_ = operation.results[0].type
    assert isinstance(type_, DescriptorType)
    item = max(1, item_bits(element_type(type_.block)) // 8)
    for axis, stride in enumerate(descriptor.strides[:-1]):
        strides = _of_active(stride, active)
        wrong = strides * item % UNIT != 0
        if wrong.any():
            size = int(strides[wrong.argmax()]) * item
            return f"the descriptor's stride along axis {axis} is {size} bytes, which is no multiple of {UNIT}"
    address = _of_active(descriptor.base.address, active)
    wrong = address % UNIT != 0
    if wrong.any():
        return f"the descriptor's tensor begins {int(address[wrong.argmax()]) % UNIT} bytes behind a multiple of {UNIT}"
    return ""


def _of_active(value: Any, active: NDArray[np.bool_] | None) -> NDArray[Any]:
    """[P or 1] what a scalar is in the programs that execute an operation; others may have read nothing into it."""
    scalars = spread_integers(value).reshape(-1)
    if active is None or not active.any():
        return scalars if active is None else scalars[:0]
    return scalars[active] if len(scalars) == len(active) else scalars
