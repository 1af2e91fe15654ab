"""TTIR text → typed modules, their verifier and their printer; NumPy and torch are not needed."""

from __future__ import annotations

from tilesight.ir.compare import first_difference
from tilesight.ir.module import (
    UNKNOWN,
    Attribute,
    Block,
    DenseElements,
    Function,
    Location,
    Module,
    Operation,
    Region,
    SymbolRef,
    Value,
)
from tilesight.ir.parser import parse_module
from tilesight.ir.printer import print_module
from tilesight.ir.types import (
    DescriptorType,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    PointerType,
    TensorType,
    Type,
    block_shape,
    element_type,
    item_bits,
)
from tilesight.ir.verifier import verify

__all__ = [
    "UNKNOWN",
    "Attribute",
    "Block",
    "DenseElements",
    "DescriptorType",
    "FloatType",
    "Function",
    "FunctionType",
    "IndexType",
    "IntegerType",
    "Location",
    "Module",
    "Operation",
    "PointerType",
    "Region",
    "SymbolRef",
    "TensorType",
    "Type",
    "Value",
    "block_shape",
    "element_type",
    "first_difference",
    "item_bits",
    "parse_module",
    "print_module",
    "verify",
]
