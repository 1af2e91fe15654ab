"""The operators that a bench knows, and those made from a user's case."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from tilesight.bench.operator_model import Draw, Operator, Shape, one_matrix
from tilesight.bench.operators_attention import ATTENTION_OPERATORS
from tilesight.bench.operators_axes import AXIS_OPERATORS
from tilesight.bench.operators_elements import ELEMENT_OPERATORS
from tilesight.bench.operators_loss import LOSS_OPERATORS
from tilesight.bench.operators_matmul import MATMUL_OPERATORS
from tilesight.bench.operators_rows import ROW_OPERATORS
from tilesight.capture.case import Case
from tilesight.capture.launches import on_engine
from tilesight.capture.numerics import flatten
from tilesight.capture.subject import load, look_up, parse_spec
from tilesight.errors import InputError


def _copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


COPY = Operator("copy", one_matrix, _copy, None, gpu_shapes=((1 << 13, 1 << 16),), cpu_shapes=((256, 4096),))
"""The roof of a run: a large copy."""

OPERATORS: dict[str, Operator] = {
    each.name: each
    for each in (
        *ROW_OPERATORS,
        *ELEMENT_OPERATORS,
        *LOSS_OPERATORS,
        *AXIS_OPERATORS,
        *MATMUL_OPERATORS,
        *ATTENTION_OPERATORS,
    )
}


def find_operator(name: str) -> Operator:
    """A known operator, or one made from a user's `FILE.py:CASE`.

    Raises: InputError: for a name that is neither
    """
    if name in OPERATORS:
        return OPERATORS[name]
    if ":" not in name and not name.endswith(".py"):
        raise InputError(
            f"no operator {name}", expected=f"one of {', '.join(OPERATORS)}, or FILE.py:CASE", where="CASES"
        )
    spec = parse_spec(name)
    value = look_up(load(spec), spec)
    if not isinstance(value, Case):
        raise InputError(f"a {type(value).__name__}", where=name, expected="a tilesight.Case")
    return of_case(value, name)


def of_case(case: Case, name: str) -> Operator:
    """A user's case: its own inputs, at their own shape and dtypes."""

    def inputs(shape: Shape, draw: Draw) -> Sequence[Any]:
        made = case.make_inputs(draw.seed)
        return [value.to(draw.device) if isinstance(value, torch.Tensor) else value for value in made]

    def hand(*inputs: Any) -> Any:
        """The author's launcher; on CPU tensors by way of the engine."""
        assert case.hand is not None
        is_here = any(tensor.is_cuda for tensor in flatten(inputs))
        with contextlib.nullcontext() if is_here else on_engine():
            return case.hand(*inputs)

    shape = next((tuple(value.shape) for value in flatten(case.make_inputs())), ())
    return Operator(
        case.name or name, inputs, case.eager, hand if case.hand else None, reference=case.reference,
        gpu_shapes=(shape,), cpu_shapes=(shape,), odd_shapes=(), is_of_one_shape=True,
    )  # fmt: skip
