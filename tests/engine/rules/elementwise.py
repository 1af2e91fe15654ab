"""Applies one elementwise operation, written as TTIR text, to whole arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tilesight.engine import Argument, Launch, Memory, execute
from tilesight.ir import parse_module

Array = NDArray[Any]
TYPE_NAMES = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def memory(name: str, array: Array) -> Memory:
    """A one-dimensional array as a tensor of the launch."""
    address = array.ctypes.data
    return Memory(
        name, address, array.view(np.uint8), array.dtype.name, array.itemsize, array.shape, (1,), address, name
    )


def apply(operation: str, *operands: Array, result: str | tuple[str, ...] = "") -> Any:
    """The result of an operation on arrays of one length.

    Args:
        operation: TTIR with %0, %1, … for the operands and T0, T1, …, R for the block types
        result: dtype name, by default the first operand's; several give a tuple of arrays
    """
    names = result if isinstance(result, tuple) else (result or operands[0].dtype.name,)
    size = len(operands[0])
    outputs = [np.zeros(size, BFLOAT16 if name == "bfloat16" else np.dtype(name)) for name in names]
    text = _module(operation, operands, outputs, size)
    arguments = [Argument(f"a{i}", memory(f"a{i}", array)) for i, array in enumerate([*operands, *outputs])]
    execute(parse_module(text), Launch("k", text, tuple(arguments), (1, 1, 1)))
    return tuple(outputs) if isinstance(result, tuple) else outputs[0]


def _module(operation: str, operands: tuple[Array, ...], outputs: list[Array], size: int) -> str:
    arrays = [*operands, *outputs]
    types = [TYPE_NAMES[array.dtype.name] for array in arrays]
    parameters = ", ".join(f"%p{i}: !tt.ptr<{type_}>" for i, type_ in enumerate(types))
    lines = [f"%range = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>"]
    for i, type_ in enumerate(types):
        pointers = f"tensor<{size}x!tt.ptr<{type_}>>"
        lines.append(f"%s{i} = tt.splat %p{i} : !tt.ptr<{type_}> -> {pointers}")
        lines.append(f"%q{i} = tt.addptr %s{i}, %range : {pointers}, tensor<{size}xi32>")
        if i < len(operands):
            lines.append(f"%v{i} = tt.load %q{i} : {pointers}")
    body = operation.replace("R", f"tensor<{size}x{types[len(operands)]}>")
    for i, type_ in enumerate(types):
        body = body.replace(f"T{i}", f"tensor<{size}x{type_}>").replace(f"%{i}", f"%v{i}")
    count = f":{len(outputs)}" if len(outputs) > 1 else ""
    lines.append(f"%r{count} = {body}")
    for i in range(len(outputs)):
        found = f"%r#{i}" if count else "%r"
        lines.append(f"tt.store %q{len(operands) + i}, {found} : tensor<{size}x!tt.ptr<{types[len(operands) + i]}>>")
    return f"module {{ tt.func public @k({parameters}) {{\n" + "\n".join(lines) + "\ntt.return\n}\n}"


def pairs(values: Array) -> tuple[Array, Array]:
    """Every value with every value."""
    left, right = np.meshgrid(values, values, indexing="ij")
    return left.reshape(-1).copy(), right.reshape(-1).copy()


def integer_edges(dtype: str) -> Array:
    """0, ±1, small ones, the limits and their neighbours."""
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    return np.array([0, 1, -1, 2, -2, 3, 7, -7, 100, low, low + 1, high, high - 1, high // 2, low // 2], dtype)


def float_edges(dtype: Any) -> Array:
    """±0, ±1, halves, subnormals, the limits, ±inf and NaN."""
    info = ml_dtypes.finfo(dtype)
    tiny, largest = float(info.smallest_subnormal), float(info.max)
    numbers = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 1e-3, tiny, 3 * tiny, float(info.tiny), largest, np.inf]
    return np.array([*numbers, *(-x for x in numbers), np.nan], np.float64).astype(dtype)
