"""One launch of a generated kernel by itself: its tensors' layouts, its sizes, its config, its grid.

What a wrapper says of a launch is enough to make tensors that it can run on, without the rest of the graph.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from tilesight.capture.inductor.graph import Call, CompiledRegion, GeneratedKernel
from tilesight.capture.inductor.kernels import LoadedKernel, load_kernel
from tilesight.capture.inductor.sizes import parse_optional_size, parse_optional_sizes
from tilesight.capture.provenance import fill_with_poison
from tilesight.errors import UnsupportedError

Role = Literal["in", "out", "inout"]
_TRITON_DTYPES = {
    "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "fp16": "float16",
    "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2",
}  # fmt: skip
_BOUND = re.compile(r"index out of bounds: 0 <= \w+ < (\d+)")
_VIEW = re.compile(r"^\s*(\w+) = (?:reinterpret_tensor\((\w+), .*\)|(\w+))(?:;.*|\s*#.*)?$", re.MULTILINE)
_ASSERT = re.compile(r"^\s*assert_(?:size_stride|tensor_metadata)\((\w+), (\([^)]*\)), (\([^)]*\))", re.MULTILINE)


@dataclass(frozen=True)
class Operand:
    """A tensor argument of a launch.

    Args:
        parameter: the kernel's parameter
        buffer: the wrapper's name for the tensor
        shape, strides: in elements
        dtype: torch's name of it
        role: read, written, or both
    """

    parameter: str
    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    role: Role

    @property
    def elements(self) -> int:
        """From the first to the last element, gaps included."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    @property
    def bytes(self) -> int:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return self.elements * dtype.itemsize


@dataclass(frozen=True)
class StandaloneLaunch:
    """A launch with all that it takes.

    Args:
        arguments: by the wrapper's order: an Operand, a size, or a number that a user's own kernel takes
        index_limit: what integer tensors may hold, exclusive: the least bound that the kernel asserts
    """

    kernel: GeneratedKernel
    loaded: LoadedKernel
    call: Call
    arguments: tuple[Operand | float, ...]
    index_limit: int

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(each for each in self.arguments if isinstance(each, Operand))

    @property
    def bytes(self) -> int:
        """Of all its tensors together."""
        return sum(each.bytes for each in self.operands)

    def make_tensors(self, seed: int = 0, *, are_positive: bool = False) -> list[torch.Tensor]:
        """One CPU tensor an operand: random where it is read, poison where it is only written.

        Args:
            are_positive: floats are uniform in 0.5 to 1.5, else normal
        """
        generator = torch.Generator().manual_seed(seed)
        return [_make(each, self.index_limit, generator, are_positive) for each in self.operands]

    def run(self, tensors: list[torch.Tensor]) -> None:
        """Launch it on the tensors, on whatever driver Triton has."""
        given = iter(tensors)
        self.loaded.run(*(next(given) if isinstance(each, Operand) else each for each in self.arguments))


Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides in elements."""


def stand_alone(region: CompiledRegion, call: Call, layouts: Mapping[str, Layout] | None = None) -> StandaloneLaunch:
    """The call as a launch that needs nothing else of its graph.

    Args:
        layouts: what `layouts_of` gives for the region, to be had once for many calls
    Raises: UnsupportedError: when a size or layout of it cannot be told
    """
    kernel = next(each for each in region.kernels if each.name == call.kernel)
    loaded = load_kernel(kernel.name, kernel.source)
    layouts = layouts_of(region) if layouts is None else layouts
    names = list(loaded.passed(call.arguments))
    arguments: list[Operand | float] = []
    for parameter, text in zip(names, call.arguments, strict=True):
        kind = kernel.signature.get(parameter, "")
        is_tensor = kind.startswith("*")
        arguments.append(
            _operand(kernel, parameter, text, layouts, region.sizes) if is_tensor else _size(text, region.sizes, call)
        )
    bounds = [int(bound) for bound in _BOUND.findall(kernel.source)]
    return StandaloneLaunch(kernel, loaded, call, tuple(arguments), min(bounds, default=2))


def layouts_of(region: CompiledRegion) -> dict[str, Layout]:
    """(shape, strides) by name, of aliases, views and extern results too."""
    found: dict[str, Layout] = {
        name: (buffer.shape, buffer.strides) for name, buffer in region.buffers.items() if buffer.bytes is not None
    }
    for name, shape, strides in _ASSERT.findall(region.code):
        layout = _parse_optional_layout(shape, strides, region.sizes)
        if layout is not None:
            found.setdefault(name, layout)
    for name, viewed, renamed in _VIEW.findall(region.code):
        if (viewed or renamed) in found:
            found.setdefault(name, found[viewed or renamed])
    return found


def _parse_optional_layout(shape: str, strides: str, sizes: Mapping[str, int]) -> Layout | None:
    parsed = [parse_optional_sizes(ast.parse(text, mode="eval").body, sizes) for text in (shape, strides)]
    return (parsed[0], parsed[1]) if parsed[0] is not None and parsed[1] is not None else None


def _operand(
    kernel: GeneratedKernel, parameter: str, text: str, layouts: Mapping[str, Layout], sizes: Mapping[str, int]
) -> Operand:
    dtype = _TRITON_DTYPES.get(kernel.signature[parameter].removeprefix("*").removeprefix("k"))
    name, layout = _layout_of(text, layouts, sizes)
    if layout is None or dtype is None:
        what = "layout" if layout is None else f"dtype {kernel.signature[parameter]}"
        raise UnsupportedError(f"{kernel.name}: the {what} of {parameter} ({text}) is not known from the code")
    return Operand(parameter, name, layout[0], layout[1], dtype, _role(kernel, parameter))


def _layout_of(text: str, layouts: Mapping[str, Layout], sizes: Mapping[str, int]) -> tuple[str, Layout | None]:
    match ast.parse(text, mode="eval").body:
        case ast.Name(id=name):
            return name, layouts.get(name)
        case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[ast.Name(id=name), shape, strides, *_]):
            return name, _parse_optional_layout(ast.unparse(shape), ast.unparse(strides), sizes)
        case _:
            return text, None


def _role(kernel: GeneratedKernel, parameter: str) -> Role:
    if parameter.startswith("in_out_ptr") or parameter in kernel.mutated:
        is_loaded = re.search(rf"tl\.(?:load|atomic_\w+)\({re.escape(parameter)}\b", kernel.source) is not None
        return "inout" if is_loaded or not parameter.startswith("out_ptr") else "out"
    return "out" if parameter.startswith("out_ptr") else "in"


def _size(text: str, sizes: Mapping[str, int], call: Call) -> float:
    expression = ast.parse(text, mode="eval").body
    if isinstance(expression, ast.Constant) and isinstance(expression.value, float):
        return expression.value
    size = parse_optional_size(expression, sizes)
    if size is None:
        raise UnsupportedError(f"{call.kernel}: the size {text} is not known from the code")
    return size


def _make(operand: Operand, index_limit: int, generator: torch.Generator, is_positive: bool) -> torch.Tensor:
    dtype: Any = getattr(torch, operand.dtype)
    tensor = torch.empty(max(operand.elements, 1), dtype=dtype)
    if operand.role == "out":
        fill_with_poison(tensor)
    elif dtype.is_floating_point:
        draw = torch.rand if is_positive else torch.randn
        tensor.copy_(draw(tensor.shape, generator=generator) + 0.5 * is_positive)
    else:
        limit = 2 if dtype == torch.bool else min(index_limit, torch.iinfo(dtype).max)
        tensor.copy_(torch.randint(0, max(limit, 1), tensor.shape, generator=generator))
    return torch.as_strided(tensor, operand.shape, operand.strides)
