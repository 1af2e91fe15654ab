"""The types of TTIR: integers, floats, pointers, tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

FLOAT_BITS = {
    "f64": 64,
    "f32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "f8E4M3FNUZ": 8,
    "f8E5M2FNUZ": 8,
    "f8E4M3B11FNUZ": 8,
}


@dataclass(frozen=True)
class IntegerType:
    """`iN`; signedness belongs to the operation, not to the type."""

    bits: int

    def __str__(self) -> str:
        return f"i{self.bits}"


@dataclass(frozen=True)
class IndexType:
    """`index`, held as 64 bits."""

    def __str__(self) -> str:
        return "index"


@dataclass(frozen=True)
class FloatType:
    """A float type by its MLIR name, such as `f32`, `bf16` or `f8E4M3FN`."""

    name: str

    @property
    def bits(self) -> int:
        return FLOAT_BITS[self.name]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PointerType:
    """`!tt.ptr<pointee>`; a pointer to a tensor (block pointer) has a TensorType pointee."""

    pointee: Type
    address_space: int = 1

    def __str__(self) -> str:
        suffix = "" if self.address_space == 1 else f", {self.address_space}"
        return f"!tt.ptr<{self.pointee}{suffix}>"


@dataclass(frozen=True)
class TensorType:
    """`tensor<AxBxelement>`: a tile; `encoding` is kept as text and is empty in TTIR."""

    shape: tuple[int, ...]
    element: Type
    encoding: str = ""

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        dims = "".join(f"{d}x" for d in self.shape)
        suffix = f", {self.encoding}" if self.encoding else ""
        return f"tensor<{dims}{self.element}{suffix}>"


@dataclass(frozen=True)
class DescriptorType:
    """`!tt.tensordesc<tensor<AxBxelement>>`: a tensor descriptor with its block type."""

    block: TensorType

    def __str__(self) -> str:
        return f"!tt.tensordesc<{self.block}>"


@dataclass(frozen=True)
class FunctionType:
    """`(inputs) -> results`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        results = ", ".join(map(str, self.results))
        return f"({inputs}) -> ({results})" if len(self.results) != 1 else f"({inputs}) -> {results}"


Type = IntegerType | IndexType | FloatType | PointerType | TensorType | DescriptorType | FunctionType


def element_type(type_: Type) -> Type:
    """The element of a tensor, or the type itself for a scalar."""
    return type_.element if isinstance(type_, TensorType) else type_


def block_shape(type_: Type) -> tuple[int, ...]:
    """The shape of a tensor, or `()` for a scalar."""
    return type_.shape if isinstance(type_, TensorType) else ()


def item_bits(type_: Type) -> int:
    """Width in bits of one element as it lies in memory (i1 takes 8, a pointer 64)."""
    element = element_type(type_)
    if isinstance(element, IntegerType):
        return max(8, element.bits)
    if isinstance(element, FloatType):
        return element.bits
    return 64
