"""What a bench knows of an operator: its inputs, the functions on every road, its fewest bytes and its FLOPs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from tilesight.capture.numerics import Verdict, flatten

Shape = Sequence[int]
Function = Callable[..., Any]
Judge = Callable[[Sequence[torch.Tensor], Sequence[Any]], Verdict]
"""Outputs and inputs, of operators whose right outputs are not one list of numbers."""
Mode = Literal["forward", "backward", "both"]
"""What is timed: the outputs, the gradients from gradients of the outputs, or the outputs and then the gradients."""
GAP = 8
"""Elements behind each row of a strided matrix."""
ROWS_GPU = 1 << 27
"""Elements of a matrix on a GPU: 256 MB in 16 bits, several times any L2."""
COLUMNS = (256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
MATRICES: tuple[Shape, ...] = (*((ROWS_GPU // columns, columns) for columns in COLUMNS), (8, 131072))
"""From many short rows to few long ones, and to few of them."""
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

    def integers(self, shape: Shape, end: int) -> torch.Tensor:
        """int64 from 0 up to `end`, dense."""
        generator = torch.Generator(self.device).manual_seed(self.seed)
        return torch.randint(end, tuple(shape), generator=generator, device=self.device)

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
        mode: what is timed
        with_gradient: places of the inputs that get one; None: all that are floating-point
        saved: places of the inputs that a backward pass has to read
        reference: what float64 is computed with; None: eager
        judge: of outputs that are right without being the reference's; None: they are held against float64
        fewest_bytes: of inputs; None: what `ideal_bytes` counts by itself
        flops: of a shape; None for an operator that is judged by its bytes
        gpu_shapes: what a GPU is asked for when nothing else is said
        cpu_shapes: the same for a CPU
        odd_shapes: numbers are checked at these too
        gpu_dtype: what a GPU is asked for when no dtype is said
        overwriting: providers that write into their inputs, and get their own copies
        is_of_one_shape: a user's case, whose inputs are what they are
    """

    name: str
    inputs: Callable[[Shape, Draw], Sequence[Any]]
    eager: Function
    hand: Function | None
    peers: Mapping[str, Callable[[], Function]] = field(default_factory=dict[str, Callable[[], Function]])
    mode: Mode = "forward"
    with_gradient: tuple[int, ...] | None = None
    saved: tuple[int, ...] = (0,)
    reference: Function | None = None
    judge: Judge | None = None
    fewest_bytes: Callable[[Sequence[Any]], int] | None = None
    flops: Callable[[Shape], int] | None = None
    gpu_shapes: tuple[Shape, ...] = MATRICES
    cpu_shapes: tuple[Shape, ...] = SMALL
    odd_shapes: tuple[Shape, ...] = ODD
    gpu_dtype: str = "bfloat16"
    overwriting: tuple[str, ...] = ()
    is_of_one_shape: bool = False

    def ideal_bytes(self, inputs: Sequence[Any]) -> int:
        """Forward each input once and each output once; backward the outputs' gradients, the saved inputs and the
        inputs' gradients; both the inputs, the outputs, the outputs' gradients and the inputs' gradients."""
        if self.fewest_bytes is not None:
            return self.fewest_bytes(inputs)
        outputs, gradients = bytes_of(outputs_of(self.eager, inputs)), bytes_of(self.differentiated(inputs))
        if self.mode == "forward":
            return bytes_of(inputs) + outputs
        if self.mode == "backward":
            return outputs + bytes_of([inputs[place] for place in self.saved]) + gradients
        return bytes_of(inputs) + 2 * outputs + gradients

    def differentiated(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs that get a gradient."""
        return [value for place, value in enumerate(inputs) if self.has_gradient(place, value)]

    def has_gradient(self, place: int, value: Any) -> bool:
        """Whether the input at a place gets one."""
        is_float = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
        return is_float and (self.with_gradient is None or place in self.with_gradient)

    def own_inputs(self, provider: str, inputs: Sequence[Any]) -> Sequence[Any]:
        """Copies for a provider that writes into them."""
        if provider not in self.overwriting:
            return inputs
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]


def outputs_of(function: Function, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Tensors without data, of the outputs' shapes and dtypes."""
    moved = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in inputs]
    return flatten(function(*moved))


def bytes_of(values: Sequence[Any]) -> int:
    """Of the tensors among the values, each element once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in flatten(values))


def one_matrix(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    """The input of an operator of one tensor."""
    return draw.tensors(shape)


def two_matrices(shape: Shape, draw: Draw) -> Sequence[torch.Tensor]:
    """The inputs of an operator of two tensors of one shape."""
    return draw.tensors(shape, shape)
