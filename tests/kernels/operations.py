"""One small Triton kernel for each operation of the language, with the inputs it is tried on.

The kernels are written out as source text, because Triton reads a kernel from its file.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton

LANES = 4096
BLOCK = 512

FLOATS = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
NARROW = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
INTEGERS = {"i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
UNSIGNED = {"u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64}
DTYPES: dict[str, torch.dtype] = {**FLOATS, **NARROW, **INTEGERS, **UNSIGNED, "i1": torch.bool}
TRITON_NAMES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "e4m3": "float8e4nv",
    "e5m2": "float8e5",
    "i1": "int1",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class Operation:
    """An elementwise expression of `a`, `b` and `c`.

    Args:
        name: what it is called in reports, unique
        expression: Triton source
        inputs: dtype names of a, b, c
        output: dtype name of the result
        domain: lowest and highest input; None for the whole range of the dtype, its edges in front
    """

    name: str
    expression: str
    inputs: tuple[str, ...]
    output: str
    domain: tuple[float, float] | None = None


TEMPLATE = """
@triton.jit
def {function}({pointers}, out, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
{loads}
    result = {expression}
    tl.store(out + lanes, result.to(out.dtype.element_ty))
"""
HEADER = """import triton
import triton.language as tl
from triton.language.extra import libdevice
"""


def _float_arithmetic(dtype: str) -> Iterator[Operation]:
    two = (dtype, dtype)
    for word, expression in {
        "add": "a + b",
        "sub": "a - b",
        "mul": "a * b",
        "div": "a / b",
        "maximum": "tl.maximum(a, b)",
        "minimum": "tl.minimum(a, b)",
        "maximum nan": "tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
        "minimum nan": "tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    }.items():
        yield Operation(f"{word} {dtype}", expression, two, dtype)
    yield Operation(f"fmod {dtype}", "a % b", two, dtype, (-1000.0, 1000.0))
    for word, sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
        yield Operation(f"{word} {dtype}", f"a {sign} b", two, "i8")
    yield Operation(f"neg {dtype}", "-a", (dtype,), dtype)
    yield Operation(f"abs {dtype}", "tl.abs(a)", (dtype,), dtype)
    yield Operation(f"where {dtype}", "tl.where(a > b, a, b)", two, dtype)
    if dtype != "f64":
        yield Operation(f"clamp {dtype}", "tl.clamp(a, -1.0, 1.0)", (dtype,), dtype)
    yield Operation(f"fma {dtype}", "tl.fma(a, b, c)", (dtype,) * 3, dtype, (-100.0, 100.0))


MATH: dict[str, tuple[str, tuple[float, float] | None]] = {
    "exp": ("tl.exp(a)", (-88.0, 88.0)),
    "exp2": ("tl.exp2(a)", (-126.0, 127.0)),
    "log": ("tl.log(a)", (0.0, 1e30)),
    "log2": ("tl.log2(a)", (0.0, 1e30)),
    "sin": ("tl.sin(a)", (-1000.0, 1000.0)),
    "cos": ("tl.cos(a)", (-1000.0, 1000.0)),
    "sqrt": ("tl.sqrt(a)", (0.0, 1e30)),
    "rsqrt": ("tl.rsqrt(a)", (0.0, 1e30)),
    "ceil": ("tl.ceil(a)", (-1e6, 1e6)),
    "floor": ("tl.floor(a)", (-1e6, 1e6)),
    "erf": ("tl.erf(a)", (-5.0, 5.0)),
    "sigmoid": ("tl.sigmoid(a)", (-80.0, 80.0)),
}
PRECISE = {"sqrt_rn": ("tl.sqrt_rn(a)", (0.0, 1e30)), "div_rn": ("tl.div_rn(a, b)", None)}


def _math() -> Iterator[Operation]:
    for dtype in ("f32", "f64"):
        for word, (expression, domain) in MATH.items():
            yield Operation(f"{word} {dtype}", expression, (dtype,), dtype, domain)
    for word, (expression, domain) in PRECISE.items():
        yield Operation(f"{word} f32", expression, ("f32", "f32"), "f32", domain)


def _casts() -> Iterator[Operation]:
    names = [*FLOATS, *NARROW, *INTEGERS, *UNSIGNED]
    for source, target in itertools.product(names, names):
        pair = {source, target}
        if source == target or (pair & NARROW.keys() and not pair & {"f32", "f16", "bf16"}):
            continue  # the back end compiles fp8 to and from these three alone
        domain = _domain_of_cast(source, target)
        yield Operation(f"{source} to {target}", f"a.to(tl.{TRITON_NAMES[target]})", (source,), target, domain)
    for target in ("f16", "bf16"):
        rounding = f'a.to(tl.{TRITON_NAMES[target]}, fp_downcast_rounding="rtz")'
        yield Operation(f"f32 to {target} rtz", rounding, ("f32",), target)
    for source, target in (("f32", "i32"), ("i32", "f32"), ("f64", "i64"), ("f16", "i16")):
        expression = f"a.to(tl.{TRITON_NAMES[target]}, bitcast=True)"
        yield Operation(f"{source} bitcast {target}", expression, (source,), target)


def _domain_of_cast(source: str, target: str) -> tuple[float, float] | None:
    """Floats that the integer can hold: out of range the language leaves the result open."""
    if source not in (*FLOATS, *NARROW) or target in (*FLOATS, *NARROW):
        return None
    limits = torch.iinfo(DTYPES[target])
    return max(float(limits.min) / 2, -6e4), min(float(limits.max) / 2, 6e4)


def _integer_arithmetic(dtype: str) -> Iterator[Operation]:
    two = (dtype, dtype)
    for word, sign in {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}.items():
        yield Operation(f"{word} {dtype}", f"a {sign} b", two, dtype)
    for word, sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
        yield Operation(f"{word} {dtype}", f"a {sign} b", two, "i8")
    bits = int(dtype[1:])
    one = f"tl.full((BLOCK,), 1, tl.{TRITON_NAMES[dtype]})"
    yield Operation(f"floor div {dtype}", f"a // (b | {one})", two, dtype)
    yield Operation(f"mod {dtype}", f"a % (b | {one})", two, dtype)
    yield Operation(f"shl {dtype}", f"a << (b & {bits - 1})", two, dtype)
    yield Operation(f"shr {dtype}", f"a >> (b & {bits - 1})", two, dtype)
    yield Operation(f"maximum {dtype}", "tl.maximum(a, b)", two, dtype)
    yield Operation(f"minimum {dtype}", "tl.minimum(a, b)", two, dtype)
    yield Operation(f"invert {dtype}", "~a", (dtype,), dtype)
    if dtype.startswith("i"):
        yield Operation(f"neg {dtype}", "-a", (dtype,), dtype)
        yield Operation(f"abs {dtype}", "tl.abs(a)", (dtype,), dtype)
    if bits >= 32:
        yield Operation(f"umulhi {dtype}", "tl.umulhi(a, b)", two, dtype)
        yield Operation(f"cdiv {dtype}", f"tl.cdiv(a & 65535, (b & 255) | {one})", two, dtype)


LIBDEVICE_UNARY: dict[str, tuple[float, float]] = {
    "acos": (-1.0, 1.0),
    "acosh": (1.0, 1e6),
    "asin": (-1.0, 1.0),
    "asinh": (-1e6, 1e6),
    "atan": (-1e4, 1e4),
    "atanh": (-1.0, 1.0),
    "cbrt": (-1e9, 1e9),
    "ceil": (-1e6, 1e6),
    "cos": (-1000.0, 1000.0),
    "cosh": (-80.0, 80.0),
    "cospi": (-100.0, 100.0),
    "erf": (-5.0, 5.0),
    "erfc": (-5.0, 9.0),
    "erfcx": (-3.0, 50.0),
    "exp": (-87.0, 88.0),
    "exp10": (-37.0, 38.0),
    "exp2": (-126.0, 127.0),
    "expm1": (-20.0, 80.0),
    "floor": (-1e6, 1e6),
    "lgamma": (0.1, 50.0),
    "log": (0.0, 1e30),
    "log10": (0.0, 1e30),
    "log1p": (-0.99, 1e6),
    "log2": (0.0, 1e30),
    "nearbyint": (-1e6, 1e6),
    "normcdf": (-5.0, 5.0),
    "rcbrt": (0.1, 1e6),
    "rint": (-1e6, 1e6),
    "round": (-1e6, 1e6),
    "rsqrt": (0.0, 1e30),
    "sin": (-1000.0, 1000.0),
    "sinh": (-80.0, 80.0),
    "sinpi": (-100.0, 100.0),
    "sqrt": (0.0, 1e30),
    "tan": (-100.0, 100.0),
    "tanh": (-10.0, 10.0),
    "tgamma": (0.1, 30.0),
    "trunc": (-1e6, 1e6),
}
LIBDEVICE_BINARY: dict[str, tuple[float, float]] = {
    "atan2": (-100.0, 100.0),
    "copysign": (-100.0, 100.0),
    "fdim": (-100.0, 100.0),
    "fmod": (-100.0, 100.0),
    "hypot": (-1e6, 1e6),
    "nextafter": (-100.0, 100.0),
    "pow": (0.01, 20.0),
    "remainder": (-100.0, 100.0),
}
LIBDEVICE_FLAGS = ("isnan", "isinf", "signbit")


def _libdevice() -> Iterator[Operation]:
    for dtype in ("f32", "f64"):
        for word, domain in LIBDEVICE_UNARY.items():
            yield Operation(f"libdevice {word} {dtype}", f"libdevice.{word}(a)", (dtype,), dtype, domain)
        for word, domain in LIBDEVICE_BINARY.items():
            yield Operation(f"libdevice {word} {dtype}", f"libdevice.{word}(a, b)", (dtype, dtype), dtype, domain)
        for word in LIBDEVICE_FLAGS:
            yield Operation(f"libdevice {word} {dtype}", f"(libdevice.{word}(a) != 0)", (dtype,), "i8")


def _random() -> Iterator[Operation]:
    yield Operation("rand", "tl.rand(a, lanes)", ("i64",), "f32")
    yield Operation("randn", "tl.randn(a, lanes)", ("i64",), "f32")
    yield Operation("randint", "tl.randint(a, lanes)", ("i64",), "i32")


def elementwise_operations() -> dict[str, Operation]:
    """Every elementwise operation by name."""
    groups = [
        *(_float_arithmetic(dtype) for dtype in FLOATS),
        *(_integer_arithmetic(dtype) for dtype in (*INTEGERS, *UNSIGNED)),
        _math(),
        _casts(),
        _libdevice(),
        _random(),
    ]
    return {operation.name: operation for group in groups for operation in group}


def write_kernels(operations: dict[str, Operation], path: Path) -> dict[str, Any]:
    """Write the kernels to a module at `path`, import it and return them by the operations' names."""
    names = {name: f"kernel_{index}" for index, name in enumerate(operations)}
    text = HEADER + "".join(_source(operations[name], function) for name, function in names.items())
    module = import_kernels(text, path)
    return {name: getattr(module, function) for name, function in names.items()}


def import_kernels(text: str, path: Path) -> ModuleType:
    """Write a module's text to `path` and import it."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _source(operation: Operation, function: str) -> str:
    letters = "abc"[: len(operation.inputs)]
    return TEMPLATE.format(
        function=function,
        pointers=", ".join(f"{letter}_ptr" for letter in letters),
        loads="\n".join(f"    {letter} = tl.load({letter}_ptr + lanes)" for letter in letters),
        expression=operation.expression,
    )


def inputs_of(operation: Operation) -> list[torch.Tensor]:
    """Random inputs with the dtype's edges in front, the same in every run."""
    generator = torch.Generator().manual_seed(len(operation.name))
    inputs = [_random_input(dtype, operation.domain, generator) for dtype in operation.inputs]
    if operation.domain is None:
        _pair_edges(operation.inputs, inputs)
    return inputs


def _random_input(dtype: str, domain: tuple[float, float] | None, generator: torch.Generator) -> torch.Tensor:
    if dtype in INTEGERS or dtype in UNSIGNED:
        return _random_bytes(DTYPES[dtype], generator)
    if domain is None:
        wide = torch.randn(LANES, generator=generator, dtype=torch.float64)
        exponent = torch.randint(-12, 12, (LANES,), generator=generator)
        return (wide * 2.0**exponent).to(DTYPES[dtype])
    low, high = domain
    uniform = torch.rand(LANES, generator=generator, dtype=torch.float64)
    values = low + (high - low) * uniform
    if low >= 0 and high > 1e6:
        values = torch.exp(torch.log(torch.tensor(high)) * (2 * uniform - 1) / 1.5)
    return values.to(DTYPES[dtype])


def _random_bytes(dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    size = LANES * torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (size,), generator=generator, dtype=torch.uint8).view(dtype)


def _pair_edges(dtypes: tuple[str, ...], inputs: list[torch.Tensor]) -> None:
    """Put every pair of edges at the front of the inputs."""
    edges = [_edges(dtype) for dtype in dtypes]
    for lane, values in enumerate(itertools.product(*edges)):
        for tensor, value in zip(inputs, values, strict=True):
            if lane < LANES:
                tensor[lane] = value


def _edges(dtype: str) -> torch.Tensor:
    kind = DTYPES[dtype]
    if dtype in INTEGERS or dtype in UNSIGNED:
        bits = int(dtype[1:])
        unsigned = [0, 1, 2, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
        signed = [value - (1 << bits) if value >= 1 << bits - 1 else value for value in unsigned]
        return torch.tensor(signed, dtype=INTEGERS[f"i{bits}"]).view(kind)
    limits = torch.finfo(kind)
    values = [0.0, -0.0, 1.0, -1.0, limits.max, limits.min, limits.tiny, float("nan")]
    values += [float("inf"), float("-inf")] if dtype != "e4m3" else []
    return torch.tensor(values, dtype=torch.float64).to(kind)


def launch(kernel: Any, operation: Operation, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Run an operation's kernel where its inputs live."""
    out = torch.zeros(LANES, dtype=DTYPES[operation.output], device=inputs[0].device)
    kernel[(triton.cdiv(LANES, BLOCK),)](*inputs, out, BLOCK=BLOCK)
    return out
