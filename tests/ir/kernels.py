"""Real kernels of every kind, and their TTIR as the installed Triton prints it (no GPU needed)."""

# The kernels are Triton's language and not Python's, so its types do not apply to them.
# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportOptionalMemberAccess=false
# pyright: reportPrivateImportUsage=false
from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.triton_helpers import math as tl_math
from triton._C.libtriton import ir as triton_ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

TRITON_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))
    values = values - tl.max(values, 0)
    weights = tl.exp(values)
    tl.store(y + row * n + columns, weights / tl.sum(weights, 0), mask=columns < n)


@triton.jit
def inductor_reduction(in_ptr0, out_ptr0, out_ptr1, out_ptr2, xnumel, r0_numel, XB: tl.constexpr, RB: tl.constexpr):
    xindex = tl.program_id(0) * XB + tl.arange(0, XB)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, RB)[None, :]
    total = tl.full([XB, RB], 0, tl.float32)
    highest = tl.full([XB, RB], float("-inf"), tl.float32)
    mean = tl.zeros([XB, RB], tl.float32)
    m2 = tl.zeros([XB, RB], tl.float32)
    weight = tl.zeros([XB, RB], tl.float32)
    for r0_offset in tl.range(0, r0_numel, RB, num_stages=2):
        r0_index = r0_offset + r0_base
        mask = (r0_index < r0_numel) & xmask
        address = in_ptr0 + (r0_index + r0_numel * xindex)
        tmp0 = tl.load(address, mask, eviction_policy="evict_first", other=0.0).to(tl.float32)
        total = tl.where(mask, total + tmp0, total)
        highest = triton_helpers.maximum(highest, tmp0)
        mean, m2, weight = triton_helpers.welford_reduce(tmp0, mean, m2, weight, r0_offset == 0)
    top = triton_helpers.max2(highest, 1)[:, None]
    average, m2, weight = triton_helpers.welford(mean, m2, weight, 1)
    scaled = libdevice.rsqrt(tl.sum(total, 1)[:, None]) + tl_math.exp(top) + tl.sigmoid(top) + libdevice.tanh(top)
    tl.store(out_ptr0 + xindex, scaled + average[:, None], xmask)
    tl.store(out_ptr1 + xindex, triton_helpers.any(total > 0, 1)[:, None], xmask)
    _, index = triton_helpers.max_with_index(highest, tl.broadcast_to(r0_base, [XB, RB]), 1)
    tl.store(out_ptr2 + xindex, index[:, None], xmask)


@triton.jit
def inductor_pointwise(in_ptr0, in_ptr1, out_ptr0, xnumel, BLOCK: tl.constexpr):
    xindex = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + xindex % 7, xmask)
    tmp2 = tl.where(tmp1 < 0, tmp1 + 64, tmp1)
    tl.device_assert(((tmp2 >= 0) & (tmp2 < 64)) | ~xmask, "index out of bounds: 0 <= tmp2 < 64")
    tmp3 = tmp0 * 0.7071067811865476
    tmp4 = libdevice.erf(tmp3) + tl_math.log(tl_math.abs(tmp0)) + libdevice.pow(tmp0, 1e-05)
    tmp5 = triton_helpers.div_floor_integer(tmp1, 3) + triton_helpers.remainder_integer(tmp1, 5)
    tl.store(out_ptr0 + xindex, (tmp4 + tmp5.to(tl.float32)).to(tl.bfloat16), xmask)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    pa = a + rows[:, None] * K + inner[None, :]
    pb = b + inner[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(pa, mask=inner[None, :] < K - k, other=0.0)
        y = tl.load(pb, mask=inner[:, None] < K - k, other=0.0, cache_modifier=".ca")
        acc = tl.dot(x, y, acc, input_precision="tf32", max_num_imprecise_acc=32)
        pa += BK
        pb += BK * N
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(tl.bfloat16), mask=mask, cache_modifier=".cs")


@triton.jit
def atomics(x, counter, lock, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets, offsets < n, other=0.0)
    tl.atomic_add(x + offsets, values, mask=offsets < n, sem="relaxed")
    tl.atomic_max(counter + offsets % 4, offsets, scope="cta")
    tl.atomic_xchg(counter, 1)
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.debug_barrier()
    tl.atomic_and(counter, 7)


@triton.jit
def while_loop(x, out, n):
    steps = 0
    value = tl.load(x)
    while (value > 1) & (steps < n):
        if value % 2 == 0:
            value = value // 2
            tl.store(out + 1 + steps, value)
        else:
            value = 3 * value + 1
        steps += 1
    tl.store(out, steps)


@triton.jit
def early_return(x, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid * BLOCK >= n:
        return
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    if pid == 0:
        tl.store(out, 1.0)
    else:
        tl.store(out + offsets, value)


@triton.jit(noinline=True)
def helper(value, scale):
    if scale > 2.0:
        return value
    return value * scale


@triton.jit
def noinline_call(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets) * helper(tl.load(x), 2.0))


@triton.jit
def add_pairs(a, b, c, d):
    return a + c, b * d


@triton.jit
def scans(x, out, index, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    first, second = tl.associative_scan((values, values), 0, add_pairs, reverse=True)
    tl.store(out + offsets, tl.cumsum(values, 0) + first + second)
    tl.store(index, tl.argmax(values, 0) + tl.argmin(values, 0, tie_break_left=False))
    tl.store(out + offsets, tl.sort(values))


@triton.jit
def shapes(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    square = tl.reshape(values, (BLOCK // 8, 8))
    flipped = tl.trans(square)
    joined = tl.join(values, values + 1)
    left, right = tl.split(joined)
    counted = tl.histogram(offsets % 16, 16)
    gathered = tl.gather(values, offsets, 0)
    tl.store(out + offsets, tl.reshape(flipped, (BLOCK,)) + left * right + gathered)
    tl.store(out + tl.arange(0, 16), counted.to(tl.float32))
    both = tl.cat(values, left, can_reorder=True)
    tl.store(out + tl.arange(0, 2 * BLOCK), both)


@triton.jit
def casts(x, bits, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets, eviction_policy="evict_last", volatile=True)
    small = values.to(tl.float8e5).to(tl.float32) + values.to(tl.float16, fp_downcast_rounding="rtz")
    integer = values.to(tl.int32, bitcast=True) ^ tl.load(bits + offsets).to(tl.int32)
    wide = tl.umulhi(integer, integer).to(tl.int64) + values.to(tl.int8)
    address = (x + offsets).to(tl.int64) + 4
    clamped = tl.clamp(values, -1.0, 1.0)
    maths = tl.fma(values, small, clamped) + tl.sqrt_rn(tl.abs(values)) + tl.div_rn(values, 3.0)
    tl.store(address.to(tl.pointer_type(tl.float32)), maths + wide.to(tl.float32))
    tl.store(out + offsets, values > float("nan"))
    tl.store(x + offsets, tl.cdiv(integer, 3) + tl.floor(maths) + tl.rsqrt(maths) + tl.exp2(maths) + tl.erf(maths))


@triton.jit
def prints(x, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    tl.device_print("values ", values, offsets)
    tl.device_print("n ", n, hex=True)
    tl.device_assert(values > 0, 'no "negative" values')


@triton.jit
def inline_assembly(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    doubled = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [values], tl.float32, True, 1)
    tl.store(out + offsets, doubled)


@triton.jit
def tensor_descriptors(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    tile = source.load([tl.program_id(0) * BM, tl.program_id(1) * BN])
    target.store([tl.program_id(0) * BM, 0], tile)
    target.atomic_add([0, 0], tile)
    row = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, BN])
    picked = row.gather(tl.arange(0, BM), 0)
    row.scatter(picked, tl.arange(0, BM), 0)


@triton.jit
def block_pointers(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    pointer = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, N, BN):
        total += tl.load(pointer, boundary_check=(0, 1), padding_option="nan")
        pointer = tl.advance(pointer, (0, BN))
    target = tl.make_block_ptr(out, (M, N), (N, 1), (0, 0), (BM, BN), (1, 0))
    tl.store(target, total, boundary_check=(0,))


@triton.jit
def scaled_dot(a, a_scale, b, b_scale, out, SIZE: tl.constexpr):
    rows = tl.arange(0, SIZE)
    tile = rows[:, None] * SIZE + rows[None, :]
    scales = rows[:, None] * (SIZE // 32) + tl.arange(0, SIZE // 32)[None, :]
    left, right = tl.load(a + tile), tl.load(b + tile)
    acc = tl.dot_scaled(left, tl.load(a_scale + scales), "e4m3", right, tl.load(b_scale + scales), "e5m2")
    tl.store(out + tile, tl.dot_scaled(left, None, "e4m3", right, tl.load(b_scale + scales), "e5m2", acc))


@triton.jit
def nested_loops(x, out, n, BLOCK: tl.constexpr):
    total = 0.0
    for i in tl.range(0, n, 2, loop_unroll_factor=2, flatten=True):
        for j in tl.static_range(2):
            total += tl.load(x + i + j)
        if total > 100.0:
            total = 0.0
    for k in range(n, 0, -1):
        tl.store(out + k, total)
    high, low = tl.rand(n, tl.arange(0, BLOCK)), tl.randint(n, tl.arange(0, BLOCK))
    tl.store(out + tl.arange(0, BLOCK), high + low)


@triton.jit
def pick(a, b, n):
    if n > 3:
        return a
    if n > 2:
        return a + b
    return b


@triton.jit
def inlined_returns(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    picked = pick(values, values * 2, n)
    for i in range(n):
        values = pick(values, picked, i)
    if tl.program_id(0) > 2:
        if n == 7:
            return
        picked = pick(picked, values, n + 1)
    tl.store(out + offsets, picked)


@triton.jit
def hints(pointers, out, n, BLOCK: tl.constexpr):
    tl.assume(n > 0)
    offsets = tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK) + n, 8), 8)
    source = tl.load(pointers + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    values = tl.load(source + tl.full([BLOCK], 1 << 40, tl.int64), mask=offsets < n, other=float("nan"))
    total = 0.0
    for i in tl.range(n, warp_specialize=True, disallow_acc_multi_buffer=True):
        total += tl.sum(values) * i
    bytes_ = (offsets.to(tl.uint8) >> 1) // 3
    tl.store(out + offsets, tl.flip(values, 0) + tl.where(bytes_ > 3, 1e-10, -0.0) + total)
    tl.store(out, tl.reduce_or(offsets, 0) + tl.extra.cuda.globaltimer().to(tl.float32) + tl.extra.cuda.smid())


@dataclass(frozen=True)
class Case:
    """A kernel with what it takes to compile it; `before` is the first Triton that refuses it."""

    kernel: Any
    signature: dict[str, str]
    constants: dict[str, Any] = field(default_factory=dict)
    before: tuple[int, int] = (99, 0)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kernel.fn.__name__


F, B, N, L = "*fp32", "*bf16", "i32", "*i32"
SQUARE = {"BM": 16, "BN": 32}
EVERY_CASE = [
    Case(vector_add, {"x": F, "y": F, "out": F, "n": N}, {"BLOCK": 128}),
    Case(softmax, {"x": F, "y": F, "n": N}, {"BLOCK": 128}),
    Case(
        inductor_reduction,
        {"in_ptr0": B, "out_ptr0": F, "out_ptr1": "*i1", "out_ptr2": "*i64", "xnumel": N, "r0_numel": N},
        {"XB": 4, "RB": 64},
    ),
    Case(inductor_pointwise, {"in_ptr0": B, "in_ptr1": "*i64", "out_ptr0": B, "xnumel": N}, {"BLOCK": 128}),
    Case(matmul, {"a": B, "b": B, "c": B, "M": N, "N": N, "K": N}, {"BM": 32, "BN": 32, "BK": 32}),
    Case(atomics, {"x": F, "counter": L, "lock": L, "n": N}, {"BLOCK": 64}),
    Case(while_loop, {"x": L, "out": L, "n": N}),
    Case(early_return, {"x": F, "out": F, "n": N}, {"BLOCK": 64}),
    Case(noinline_call, {"x": F, "out": F}, {"BLOCK": 64}),
    Case(scans, {"x": F, "out": F, "index": L}, {"BLOCK": 16}),
    Case(shapes, {"x": F, "out": F}, {"BLOCK": 64}),
    Case(casts, {"x": F, "bits": "*u16", "out": "*i1"}, {"BLOCK": 64}),
    Case(prints, {"x": F, "n": N}, {"BLOCK": 64}, options={"debug": True}),
    Case(inline_assembly, {"x": F, "out": F}, {"BLOCK": 64}),
    Case(tensor_descriptors, {"x": "*fp16", "out": "*fp16", "M": N, "N": N}, SQUARE),
    Case(block_pointers, {"x": F, "out": F, "M": "i64", "N": "i64"}, SQUARE, before=(3, 8)),
    Case(scaled_dot, {"a": "*u8", "a_scale": "*u8", "b": "*u8", "b_scale": "*u8", "out": F}, {"SIZE": 64}),
    Case(inlined_returns, {"x": F, "out": F, "n": N}, {"BLOCK": 64}),
    Case(hints, {"pointers": "*u64", "out": F, "n": N}, {"BLOCK": 64}),
    Case(nested_loops, {"x": F, "out": F, "n": N}, {"BLOCK": 64}),
]
CASES = {case.name: case for case in EVERY_CASE if case.before > TRITON_VERSION}


@cache
def ttir(name: str) -> str:
    """The TTIR of a case, from Triton's front end and its TTIR passes alone (about 0.1 s)."""
    case = CASES[name]
    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    signature = case.signature | dict.fromkeys(case.constants, "constexpr")
    source = ASTSource(case.kernel, signature, case.constants, {(0,): [["tt.divisibility", 16]]})
    options = backend.parse_options(case.options)
    context = triton_ir.context()
    triton_ir.load_dialects(context)
    backend.load_dialects(context)
    codegen = backend.get_codegen_implementation(options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # block pointers are deprecated and still in use
        module = source.make_ir(target, options, codegen, backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    return str(stages["ttir"](module, {}))


def reprinted_by_triton(text: str) -> str:
    """The text after a trip through Triton's own parser and printer, which judge our printer."""
    if TRITON_VERSION >= (3, 8):  # `!tt.tensordesc<tensor<16x32xf16>>` became `!tt.tensordesc<16x32xf16>`
        text = re.sub(r"((?:tensordesc|make_tensor_descriptor .*, )<)tensor<([^<>]*)>>", r"\1\2>", text)
    context = triton_ir.context()
    triton_ir.load_dialects(context)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "module.ttir"
        path.write_text(text)
        module = triton_ir.parse_mlir_module(str(path), context)
        return str(module)
