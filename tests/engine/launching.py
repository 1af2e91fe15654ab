"""Launches for tests: TTIR from a @triton.jit function, memories from torch CPU tensors."""

# Triton's own modules carry no types.
# pyright: reportMissingModuleSource=false, reportUnknownVariableType=false, reportUnknownMemberType=false
from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from triton._C.libtriton import ir as triton_ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from tilesight.engine import Argument, Execution, ExecutionOptions, Launch, Listener, Memory, execute
from tilesight.ir import parse_module

TARGET = GPUTarget("cuda", 90, 32)
TYPE_NAMES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "i1",
}


def memory_of(name: str, tensor: torch.Tensor) -> Memory:
    """The bytes between a CPU tensor's lowest and highest element, shared with the tensor."""
    item = tensor.element_size()
    span = (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1) * item
    size = span if tensor.numel() else 0
    flat = torch.as_strided(tensor, (size // item,), (1,)) if size else tensor.reshape(-1)
    data = flat.view(torch.uint8).numpy() if tensor.dtype != torch.bool else flat.numpy().view(np.uint8)
    dtype = str(tensor.dtype).removeprefix("torch.")
    pointer = tensor.data_ptr()
    return Memory(name, pointer, data, dtype, item, tuple(tensor.shape), tuple(tensor.stride()), pointer, name)


@cache
def compile_ttir(
    kernel: Any, signature: tuple[tuple[str, str], ...], constexprs: tuple[tuple[str, Any], ...], debug: bool
) -> str:
    """A kernel's TTIR from Triton's front end and its TTIR passes alone; `debug` keeps device asserts."""
    backend: Any = make_backend(TARGET)
    source: Any = ASTSource(kernel, dict(signature), dict(constexprs))
    options = backend.parse_options({"debug": debug, "sanitize_overflow": False})
    context: Any = triton_ir.context()
    triton_ir.load_dialects(context)
    backend.load_dialects(context)
    codegen = backend.get_codegen_implementation(options)
    module = source.make_ir(TARGET, options, codegen, backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    return str(stages["ttir"](module, {}))


def launch_of(kernel: Any, grid: tuple[int, ...], arguments: dict[str, Any], debug: bool = False) -> Launch:
    """A launch of a @triton.jit function with its arguments by name: tensors, numbers and constexprs."""
    constants = {p.name for p in kernel.params if p.is_constexpr}
    ordered = {p.name: arguments[p.name] for p in kernel.params}
    signature = {n: "constexpr" if n in constants else _signature_type(value) for n, value in ordered.items()}
    given = tuple((name, value) for name, value in ordered.items() if name in constants)
    ttir = compile_ttir(kernel, tuple(signature.items()), given, debug)
    bound = tuple(
        Argument(name, memory_of(name, value) if isinstance(value, torch.Tensor) else value)
        for name, value in ordered.items()
        if name not in constants
    )
    x, y, z = (*grid, 1, 1)[:3]
    return Launch(kernel.__name__, ttir, bound, (x, y, z), constexprs=dict(given))


def _signature_type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"*{TYPE_NAMES[value.dtype]}"
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(1 << 31) <= value < 1 << 31 else "i64"


def run(
    kernel: Any,
    grid: tuple[int, ...],
    listeners: tuple[Listener, ...] = (),
    options: ExecutionOptions | None = None,
    debug: bool = False,
    **arguments: Any,
) -> Execution:
    """Compile, bind and execute a kernel; tensors are written in place."""
    launch = launch_of(kernel, grid, arguments, debug)
    return execute(parse_module(launch.ttir), launch, listeners, options)
