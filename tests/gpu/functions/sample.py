"""How a function of the corpus says with what it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from tilesight.capture.inputs import TensorSpec, parse_inputs

Found = TypeVar("Found", bound=Callable[..., Any])


@dataclass(frozen=True)
class Sample:
    """One way to compile a function: its inputs, and torch.compile's options.

    Args:
        function: a function, or a subclass of nn.Module that is built without arguments
        inputs: TensorSpecs and plain values
        backward: gradients of every floating input and weight are asked for
        dynamic, mode: torch.compile's
    """

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    backward: bool = False
    dynamic: bool | None = None
    mode: str | None = None

    @property
    def suffix(self) -> str:
        """What tells this sample from the function's first."""
        said = {"backward": self.backward, "dynamic": self.dynamic, self.mode or "": self.mode}
        return "".join(f" {word}" for word, is_so in said.items() if is_so)


def sample(*inputs: Any, backward: bool = False, dynamic: bool | None = None, mode: str | None = None) -> Any:
    """A decorator that gives a function one more sample; those of one function are read from the top down.

    Args:
        inputs: texts such as "f32[8,8],i64[8]<8", TensorSpecs for strides, and plain values
    """
    specs = tuple(spec for value in inputs for spec in (parse_inputs(value) if isinstance(value, str) else (value,)))

    def add(function: Found) -> Found:
        made = Sample(function, specs, backward, dynamic, mode)
        setattr(function, "samples", (made, *getattr(function, "samples", ())))  # noqa: B010 (a class has no such field)
        return function

    return add


def strided(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype = torch.float32) -> TensorSpec:
    """An input that is no dense row-major tensor."""
    return TensorSpec(shape, dtype, strides)


def samples_of(module: Any) -> dict[str, Sample]:
    """A family's samples by name, such as `norms.softmax backward`."""
    family = module.__name__.rpartition(".")[2]
    found: dict[str, Sample] = {}
    for name, function in vars(module).items():
        if getattr(function, "__module__", "") != module.__name__:
            continue
        for position, each in enumerate(getattr(function, "samples", ())):
            full = f"{family}.{name}{each.suffix}"
            found[full if full not in found else f"{full} {position}"] = each
    return found
