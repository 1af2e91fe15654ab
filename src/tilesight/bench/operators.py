"""The operators that a bench knows: inputs, eager and hand-written functions, peers, fewest bytes and FLOPs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from tilesight import kernels
from tilesight.bench import peers
from tilesight.capture.case import Case
from tilesight.capture.launches import on_engine
from tilesight.capture.numerics import flatten
from tilesight.capture.subject import load, look_up, parse_spec
from tilesight.errors import InputError

Shape = Sequence[int]
Function = Callable[..., Any]
EPS = 1e-6
GAP = 8
"""Elements behind each row of a strided matrix."""
ROWS_GPU = 1 << 27
"""Elements of a matrix on a GPU: 256 MB in 16 bits, several times any L2."""
COLUMNS = (256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
SMALL: tuple[Shape, ...] = ((16, 64), (4, 1000))
"""On a CPU, where hand-written kernels run on the engine."""
ODD: tuple[Shape, ...] = ((1, 7), (5, 129), (2, 4099))


@dataclass(frozen=True)
class Draw:
    """Makes random inputs; what is drawn depends on the seed alone.

    Args:
        device: `cuda` or `cpu`
        is_strided: every row of a matrix is followed by a gap
    """

    dtype: torch.dtype
    device: str
    seed: int = 0
    is_strided: bool = False

    def tensors(self, *shapes: Shape) -> list[torch.Tensor]:
        """Normal random tensors, one a shape."""
        generator = torch.Generator(self.device).manual_seed(self.seed)
        return [self._one(shape, generator) for shape in shapes]

    def _one(self, shape: Shape, generator: torch.Generator) -> torch.Tensor:
        gap = GAP if self.is_strided and len(shape) > 1 else 0
        drawn = torch.randn((*shape[:-1], shape[-1] + gap), generator=generator, device=self.device)
        return drawn.to(self.dtype).narrow(-1, 0, shape[-1])


@dataclass(frozen=True)
class Operator:
    """One operator on every road.

    Args:
        name: on the command line
        inputs: makes the arguments of a shape
        eager: PyTorch's own; also what torch.compile is given
        hand: ours; None where there is none
        peers: name → a function that imports the peer and returns its function
        is_backward: what is timed is the gradients of all inputs, from gradients of all outputs
        saved_inputs: how many of the inputs the backward pass has to read
        flops: of a shape; None for an operator that is judged by its bytes
        gpu_shapes: what a GPU is asked for when nothing else is said
        cpu_shapes: the same for a CPU
        odd_shapes: numbers are checked at these too
        is_of_one_shape: a user's case, whose inputs are what they are
    """

    name: str
    inputs: Callable[[Shape, Draw], Sequence[Any]]
    eager: Function
    hand: Function | None
    peers: Mapping[str, Callable[[], Function]] = field(default_factory=dict[str, Callable[[], Function]])
    is_backward: bool = False
    saved_inputs: int = 1
    reference: Function | None = None
    flops: Callable[[Shape], int] | None = None
    gpu_shapes: tuple[Shape, ...] = tuple((ROWS_GPU // columns, columns) for columns in COLUMNS)
    cpu_shapes: tuple[Shape, ...] = SMALL
    odd_shapes: tuple[Shape, ...] = ODD
    is_of_one_shape: bool = False

    def ideal_bytes(self, inputs: Sequence[Any]) -> int:
        """Each input once and each output once; backward the outputs' gradients, the saved inputs, the inputs'
        gradients. A reduction's share of a weight's gradient counts as the weight."""
        given = flatten(inputs)
        outputs = _bytes_of(outputs_of(self.eager, inputs))
        if not self.is_backward:
            return _bytes_of(given) + outputs
        return outputs + _bytes_of(given[: self.saved_inputs]) + _bytes_of(given)


def outputs_of(function: Function, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Tensors without data, of the outputs' shapes and dtypes."""
    moved = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in inputs]
    return flatten(function(*moved))


def _bytes_of(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _one_matrix(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return draw.tensors(shape)


def _matrix_and_weight(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return draw.tensors(shape, shape[-1:])


def _two_and_weight(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    return draw.tensors(shape, shape, shape[-1:])


def _copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _log_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(x, -1)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, weight.shape, weight, EPS)


def _rms_norm_by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return kernels.rms_norm(x, weight.shape, weight, EPS)


def _add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return F.rms_norm(total, weight.shape, weight, EPS), total


def _add_rms_norm_by_hand(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return kernels.add_rms_norm(x, residual, weight, EPS)


COPY = Operator("copy", _one_matrix, _copy, None, gpu_shapes=((1 << 13, 1 << 16),), cpu_shapes=((256, 4096),))
"""The roof of a run: a large copy."""

OPERATORS: dict[str, Operator] = {
    each.name: each
    for each in (
        Operator("softmax", _one_matrix, _softmax, kernels.softmax, peers.SOFTMAX),
        Operator("softmax_backward", _one_matrix, _softmax, kernels.softmax, peers.SOFTMAX, is_backward=True),
        Operator("log_softmax", _one_matrix, _log_softmax, kernels.log_softmax, peers.LOG_SOFTMAX),
        Operator("log_softmax_backward", _one_matrix, _log_softmax, kernels.log_softmax, is_backward=True),
        Operator("rms_norm", _matrix_and_weight, _rms_norm, _rms_norm_by_hand, peers.RMS_NORM),
        Operator(
            "rms_norm_backward", _matrix_and_weight, _rms_norm, _rms_norm_by_hand, peers.RMS_NORM, is_backward=True
        ),
        Operator("add_rms_norm", _two_and_weight, _add_rms_norm, _add_rms_norm_by_hand, peers.ADD_RMS_NORM),
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
