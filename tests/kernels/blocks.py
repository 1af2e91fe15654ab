"""Operations on whole blocks, one small Triton kernel each: reductions, scans, shapes, products, atomics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from tests.kernels.operations import DTYPES, FLOATS, import_kernels

SIDE = 32
PROGRAMS = 6

Bound = Literal["exact", "sum", "product"]


@dataclass(frozen=True)
class BlockOperation:
    """An expression of `a` and `b`, blocks of SIDE x SIDE, or statements that update `out`.

    Args:
        name: what it is called in reports, unique
        expression: Triton source
        inputs: dtype names of a and b
        output: dtype name of the result
        size: elements of the result in each program; 0 where the statements write `out` themselves
        bound: exact, or within the rounding of a sum or a product of SIDE x SIDE numbers
    """

    name: str
    expression: str
    inputs: tuple[str, ...]
    output: str
    size: int
    bound: Bound = "exact"


HEADER = """import triton
import triton.language as tl


@triton.jit
def multiply_add(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def first_larger(v0, i0, v1, i1):
    takes = (v0 > v1) | ((v0 == v1) & (i0 < i1))
    return tl.where(takes, v0, v1), tl.where(takes, i0, i1)


@triton.jit
def product(a, b):
    return a * b

"""
TEMPLATE = """
@triton.jit
def {function}({pointers}, out, SIDE: tl.constexpr):
    program = tl.program_id(0)
    rows = tl.arange(0, SIDE)[:, None]
    columns = tl.arange(0, SIDE)[None, :]
    lanes = program * SIDE * SIDE + rows * SIDE + columns
{loads}
"""
STORE = """    result = tl.reshape({expression}, [{size}])
    tl.store(out + program * {size} + tl.arange(0, {size}), result.to(out.dtype.element_ty))
"""


def _reductions() -> Iterator[BlockOperation]:
    for dtype in ("f32", "f64", "f16", "bf16", "i32", "i64"):
        is_float = dtype in FLOATS
        for axis in (0, 1):
            kind: Bound = "sum" if is_float else "exact"
            output = "f32" if dtype in ("f16", "bf16") else dtype
            yield BlockOperation(f"sum {dtype} axis {axis}", f"tl.sum(a, {axis})", (dtype,), output, SIDE, kind)
            for word in ("max", "min"):
                yield BlockOperation(f"{word} {dtype} axis {axis}", f"tl.{word}(a, {axis})", (dtype,), dtype, SIDE)
                argument = f"tl.arg{word}(a, {axis})"
                yield BlockOperation(f"arg{word} {dtype} axis {axis}", argument, (dtype,), "i32", SIDE)
    for dtype in ("i32", "i64"):
        yield BlockOperation(f"xor sum {dtype}", "tl.xor_sum(a, 1)", (dtype,), dtype, SIDE)
    yield BlockOperation("reduce product f32", "tl.reduce(a, 1, product)", ("f32",), "f32", SIDE, "product")
    pair = "tl.reduce((a, columns + tl.zeros_like(a).to(tl.int32)), 1, first_larger)[1]"
    yield BlockOperation("reduce pair f32", pair, ("f32",), "i32", SIDE)


def _scans() -> Iterator[BlockOperation]:
    whole = SIDE * SIDE
    for reverse in (False, True):
        way = f", reverse={reverse}"
        word = " reverse" if reverse else ""
        for dtype in ("f32", "i32", "i64"):
            kind: Bound = "sum" if dtype in FLOATS else "exact"
            yield BlockOperation(f"cumsum {dtype}{word}", f"tl.cumsum(a, 1{way})", (dtype,), dtype, whole, kind)
        yield BlockOperation(f"cumprod f32{word}", f"tl.cumprod(a, 1{way})", ("f32",), "f32", whole, "product")
        recurrence = f"tl.associative_scan((a, b), 1, multiply_add{way})[1]"
        yield BlockOperation(f"recurrence f32{word}", recurrence, ("f32", "f32"), "f32", whole, "product")


def _shapes() -> Iterator[BlockOperation]:
    whole = SIDE * SIDE
    for dtype in ("f32", "i32", "f16"):
        for word, expression, size in (
            ("trans", "tl.trans(a)", whole),
            ("permute", f"tl.permute(tl.reshape(a, [4, {SIDE // 4}, {SIDE}]), [2, 0, 1])", whole),
            ("join", "tl.join(a, b)", 2 * whole),
            ("interleave", "tl.interleave(a, b)", 2 * whole),
            ("split", f"tl.split(tl.reshape(a, [{SIDE}, {SIDE // 2}, 2]))[1]", whole // 2),
            ("broadcast", "tl.broadcast_to(tl.sum(a, 1, keep_dims=True), [SIDE, SIDE])", whole),
            ("flip", "tl.flip(a, 1)", whole),
            ("sort", "tl.sort(a, 1)", whole),
            ("sort descending", "tl.sort(a, 1, descending=True)", whole),
            ("topk", "tl.topk(a, 8, 1)", SIDE * 8),
        ):
            if word == "broadcast" and dtype != "i32":
                continue
            yield BlockOperation(f"{word} {dtype}", expression, (dtype, dtype), dtype, size)
    index = f"((b & {SIDE - 1}) + tl.zeros_like(b)).to(tl.int32)"
    yield BlockOperation("gather axis 1", f"tl.gather(a, {index}, 1)", ("f32", "i32"), "f32", whole)
    yield BlockOperation("gather axis 0", f"tl.gather(a, {index}, 0)", ("f32", "i32"), "f32", whole)
    flat = f"tl.reshape(a & 63, [{whole}])"
    yield BlockOperation("histogram", f"tl.histogram({flat}, 64)", ("i32",), "i32", 64)
    masked = f"tl.histogram({flat}, 64, mask={flat} > 7)"
    yield BlockOperation("histogram masked", masked, ("i32",), "i32", 64)


PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


def _products() -> Iterator[BlockOperation]:
    whole = SIDE * SIDE
    for precision in PRECISIONS:
        expression = f'tl.dot(a, b, input_precision="{precision}")'
        yield BlockOperation(f"dot f32 {precision}", expression, ("f32", "f32"), "f32", whole, "product")
    for dtype in ("f16", "bf16", "e4m3", "e5m2"):
        yield BlockOperation(f"dot {dtype}", "tl.dot(a, b)", (dtype, dtype), "f32", whole, "product")
    yield BlockOperation("dot f64", "tl.dot(a, b)", ("f64", "f64"), "f64", whole, "product")
    yield BlockOperation("dot i8", "tl.dot(a, b, out_dtype=tl.int32)", ("i8", "i8"), "i32", whole)
    half = "tl.dot(a, b, out_dtype=tl.float16)"
    yield BlockOperation("dot f16 in f16", half, ("f16", "f16"), "f16", whole, "product")


def _atomics() -> Iterator[BlockOperation]:
    """All programs update the same elements; float sums are of small whole numbers, so no order shows."""
    for dtype in ("i32", "i64"):
        for word in ("add", "max", "min", "and", "or", "xor"):
            statement = f"tl.atomic_{word}(out + rows * SIDE + columns, a)"
            yield BlockOperation(f"atomic {word} {dtype}", statement, (dtype,), dtype, 0)
    for dtype in ("u32", "u64"):
        for word in ("max", "min"):
            statement = f"tl.atomic_{word}(out + rows * SIDE + columns, a)"
            yield BlockOperation(f"atomic {word} {dtype}", statement, (dtype,), dtype, 0)
    for dtype in ("f32", "f64", "f16", "bf16"):
        whole_number = f"((a.to(tl.float32) * 0) + (columns % 5) + program).to(tl.{_name(dtype)})"
        statement = f"tl.atomic_add(out + rows * SIDE + columns, {whole_number})"
        yield BlockOperation(f"atomic add {dtype}", statement, (dtype,), dtype, 0)
    for word in ("max", "min"):
        statement = f"tl.atomic_{word}(out + rows * SIDE + columns, a)"
        yield BlockOperation(f"atomic {word} f32", statement, ("f32",), "f32", 0)
    swap = "tl.atomic_cas(out + lanes % SIDE, tl.zeros_like(a), tl.where(lanes < SIDE, a, a * 0))"
    yield BlockOperation("atomic cas i32", swap, ("i32",), "i32", 0)
    exchange = "tl.atomic_xchg(out + lanes, a)"
    yield BlockOperation("atomic xchg i32", exchange, ("i32",), "i32", 0)


def _name(dtype: str) -> str:
    return {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}[dtype]


def block_operations() -> dict[str, BlockOperation]:
    """Every block operation by name."""
    groups = (_reductions(), _scans(), _shapes(), _products(), _atomics())
    return {operation.name: operation for group in groups for operation in group}


def write_block_kernels(operations: dict[str, BlockOperation], path: Path) -> dict[str, Any]:
    """Write the kernels to a module at `path`, import it and return them by the operations' names."""
    names = {name: f"kernel_{index}" for index, name in enumerate(operations)}
    text = HEADER + "".join(_source(operations[name], function) for name, function in names.items())
    module = import_kernels(text, path)
    return {name: getattr(module, function) for name, function in names.items()}


def _source(operation: BlockOperation, function: str) -> str:
    letters = "ab"[: len(operation.inputs)]
    head = TEMPLATE.format(
        function=function,
        pointers=", ".join(f"{letter}_ptr" for letter in letters),
        loads="\n".join(f"    {letter} = tl.load({letter}_ptr + lanes)" for letter in letters),
    )
    if operation.size == 0:
        return head + f"    {operation.expression}\n"
    return head + STORE.format(expression=operation.expression, size=operation.size)


def block_inputs(operation: BlockOperation) -> list[torch.Tensor]:
    """Random inputs, the same in every run; factors of long products are near 1."""
    generator = torch.Generator().manual_seed(len(operation.name))
    return [_random(dtype, operation, generator) for dtype in operation.inputs]


def _random(dtype: str, operation: BlockOperation, generator: torch.Generator) -> torch.Tensor:
    kind, lanes = DTYPES[dtype], PROGRAMS * SIDE * SIDE
    if not kind.is_floating_point:
        size = lanes * torch.empty(0, dtype=kind).element_size()
        return torch.randint(0, 256, (size,), generator=generator, dtype=torch.uint8).view(kind)
    values = torch.randn(lanes, generator=generator, dtype=torch.float64)
    is_long_product = operation.bound == "product" and not operation.name.startswith("dot")
    return (1 + values / 16 if is_long_product else values).to(kind)


def launch_block(kernel: Any, operation: BlockOperation, inputs: list[torch.Tensor]) -> torch.Tensor:
    """Run an operation's kernel where its inputs live."""
    lanes = PROGRAMS * (operation.size or SIDE * SIDE)
    out = torch.zeros(lanes, dtype=DTYPES[operation.output], device=inputs[0].device)
    kernel[(PROGRAMS,)](*inputs, out, SIDE=SIDE)
    return out
