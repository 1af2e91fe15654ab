"""Records written by hand, as the roads make them: add + relu of 100,000 floats, tiles of 1024."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tilesight.capture.parts import Parts, find_parts
from tilesight.checks.finding import Finding
from tilesight.ledger.model import AccessRow, Bytes, KernelTraffic, Ledger, RoundTrip
from tilesight.ledger.tiles import TilePicture
from tilesight.roads.model import (
    Break,
    Check,
    CheckedCase,
    CheckedFinding,
    Comparison,
    CompileTimes,
    Graph,
    GraphOp,
    Kernel,
    LinePair,
    NotFused,
    Observation,
    Provider,
    ScriptRun,
    Trace,
    TracedTensor,
)

N, BLOCK, PROGRAMS, TAIL_OFF = 100_000, 1024, 98, 352
LANES = PROGRAMS * BLOCK
FILE = "/home/me/lessons/04c_triton_fused_add_relu.py"
HAND_FIRST_LINE = 12
HAND_SOURCE = '''\
@triton.jit
def fused_add_relu(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    """out = max(x + y, 0)"""
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x + y, 0.0), mask=mask)
'''
GENERATED_NAME = "triton_poi_fused_add_relu_0"
GENERATED_SOURCE = (Path(__file__).parent / "generated_add_relu.txt").read_text(encoding="utf-8")
TRIP = RoundTrip("add", 8 * N, "aten.add", ("aten.relu",))


def access(kind: str, line: int, tensor: str, out_of_bounds: int = 0) -> AccessRow:
    return AccessRow(kind, line, tensor, LANES, TAIL_OFF - out_of_bounds, 4 * (N + out_of_bounds), 4 * N, out_of_bounds)


def trace() -> Trace:
    rows = (access("load", 18, "x"), access("load", 19, "y"), access("store", 20, "out"))
    return Trace(
        kernel="fused_add_relu",
        file=FILE,
        first_line=HAND_FIRST_LINE,
        source=HAND_SOURCE,
        parts=find_parts(HAND_SOURCE),
        grid=(PROGRAMS, 1, 1),
        programs=PROGRAMS,
        constexprs={"BLOCK_SIZE": BLOCK},
        options={"num_warps": 4, "num_stages": 3},
        tensors=tuple(TracedTensor(name, (N,), "float32", N) for name in ("x", "y", "out")),
        traffic=KernelTraffic(rows, Bytes(12 * N, 12 * N, None)),
        findings=(),
        tiles=tiles(),
    )


def tiles() -> TilePicture:
    ids = (0, 1, 2, 3, 94, 95, 96, 97)
    return TilePicture(
        tensor="out",
        elements=N,
        program_ids=ids,
        first=tuple(pid * BLOCK for pid in ids),
        last=tuple(pid * BLOCK + BLOCK - 1 for pid in ids),
        tile_lanes=BLOCK,
        tail_lanes_off=TAIL_OFF,
    )


def finding() -> Finding:
    return Finding(
        kind="out-of-bounds",
        file=FILE,
        line=20,
        programs=(97,),
        program_count=1,
        lanes=(672, 1023),
        lane_count=TAIL_OFF,
        tensor="out",
        message="the store to out reaches elements 100000 to 100351; out has 100000",
        hint="add mask=offsets < n to the store",
    )


def broken_trace() -> Trace:
    """The same launch with its store's mask left out."""
    source = HAND_SOURCE.replace(", 0.0), mask=mask)", ", 0.0))")
    rows = (access("load", 18, "x"), access("load", 19, "y"), access("store", 20, "out", TAIL_OFF))
    traffic = KernelTraffic(rows, Bytes(12 * N + 4 * TAIL_OFF, 12 * N, None))
    return replace(trace(), source=source, parts=find_parts(source), traffic=traffic, findings=(finding(),))


def op(name: str, target: str, inputs: tuple[str, ...], line: int, code: str) -> GraphOp:
    return GraphOp(name, target, inputs, (N,), "float32", f"{FILE}:{line}", code)


def graph() -> Graph:
    return Graph(
        ops=(
            op("add", "aten.add.Tensor", ("arg0_1", "arg1_1"), 31, "t = x + y"),
            op("relu", "aten.relu.default", ("add",), 32, "return torch.relu(t)"),
        ),
        fx=(
            op("t", "add", ("l_x_", "l_y_"), 31, "t = x + y"),
            op("relu", "relu", ("t",), 32, "return torch.relu(t)"),
        ),
        inputs=(
            GraphOp("arg0_1", "arg0_1", (), (N,), "float32"),
            GraphOp("arg1_1", "arg1_1", (), (N,), "float32"),
        ),
        outputs=("relu",),
    )


def kernel() -> Kernel:
    return Kernel(
        name=GENERATED_NAME,
        kind="triton",
        ops=("aten.add", "aten.relu"),
        source=GENERATED_SOURCE,
        source_lines=(f"{FILE}:31", f"{FILE}:32"),
        parts=find_parts(GENERATED_SOURCE, GENERATED_NAME),
        grid=(PROGRAMS, 1, 1),
        config={"XBLOCK": BLOCK, "num_warps": 4},
        reads=("arg0_1", "arg1_1"),
        writes=("buf0",),
        bytes=Bytes(12 * N, 12 * N, None),
    )


def observation() -> Observation:
    return Observation(
        subject="04c_triton_fused_add_relu.py:add_relu",
        inputs=(f"f32[{N}]", f"f32[{N}]"),
        target="h200",
        torch="2.13.0",
        triton="3.7.1",
        graph=graph(),
        breaks=(),
        kernels=(kernel(),),
        ledger=Ledger(20 * N, 12 * N, 12 * N, (), (TRIP,)),
        not_fused=(),
        compile=CompileTimes(1.234, 0.0045, "hit"),
        output_code=("def call(args): ...",),
    )


def attention() -> Observation:
    """A region with extern calls, round trips, a view, a pair left apart, a graph break, unknown bytes."""
    shape = (8, 128, 64)

    def node(name: str, target: str, inputs: tuple[str, ...], line: int) -> GraphOp:
        return GraphOp(name, target, inputs, shape, "bfloat16", f"/home/me/model/attention.py:{line}", f"{name} = …")

    softmax_ops = ("amax", "sub", "exp", "sum", "div")
    ops = (
        node("permute", "aten.permute.default", ("k",), 14),
        node("bmm", "aten.bmm.default", ("q", "permute"), 14),
        node("amax", "aten.amax.default", ("bmm",), 15),
        node("sub", "aten.sub.Tensor", ("bmm", "amax"), 15),
        node("exp", "aten.exp.default", ("sub",), 15),
        node("sum", "aten.sum.dim_IntList", ("exp",), 15),
        node("div", "aten.div.Tensor", ("exp", "sum"), 15),
        node("bmm_1", "aten.bmm.default", ("div", "v"), 16),
    )
    softmax = Kernel(
        name="triton_per_fused__softmax_0",
        kind="triton",
        ops=tuple(f"aten.{name}" for name in softmax_ops),
        source="@triton.jit\ndef triton_per_fused__softmax_0(in_out_ptr0, xnumel, r0_numel):\n    pass\n",
        source_lines=("/home/me/model/attention.py:15",),
        parts=Parts(),
        grid=(1024, 1, 1),
        config={"XBLOCK": 1},
        reads=("buf0",),
        writes=("buf3",),
        registers=40,
        spills=0,
        shared_bytes=2048,
        occupancy=0.75,
        predicted_us=3.21,
    )
    trips = (
        RoundTrip("buf0", 2 * 262_144, "extern_kernels.bmm", ("triton_per_fused__softmax_0",)),
        RoundTrip("buf3", 2 * 262_144, "triton_per_fused__softmax_0", ("extern_kernels.bmm",)),
    )
    line = "/home/me/model/attention.py"
    return Observation(
        subject="attention.py:attention",
        inputs=("bf16[8,128,64]",) * 3,
        target="h200",
        torch="2.13.0",
        triton="3.7.1",
        graph=Graph(ops, ops, (), ("bmm_1",)),
        breaks=(Break(f"{line}:20", "print: a call with a side effect"),),
        kernels=(
            Kernel("bmm", "extern", ("aten.bmm",), source_lines=(f"{line}:14",), reads=("q", "k"), writes=("buf0",)),
            softmax,
            Kernel("bmm", "extern", ("aten.bmm",), source_lines=(f"{line}:16",), reads=("buf3", "v"), writes=("buf4",)),
        ),
        ledger=Ledger(None, None, 524_288, trips, ()),
        not_fused=(NotFused("amax + sub", "bmm", "a template's epilogue cannot hold a reduction", 262_144),),
        compile=CompileTimes(2.5, None, None),
        notes=("kernel bytes not measured yet: the buffers exceed the 16 MB that are executed here",),
    )


def comparison() -> Comparison:
    moved = Bytes(12 * N, 12 * N, None)
    return Comparison(
        case="add_relu",
        inputs=(f"f32[{N}]", f"f32[{N}]"),
        target="h200",
        ideal_bytes=12 * N,
        providers=(
            Provider("eager", True, 5.9e-8, 1e-6, Bytes(20 * N, 20 * N, None), (TRIP,)),
            Provider("compiled", True, 5.9e-8, 1e-6, moved, (), (GENERATED_NAME,)),
            Provider("hand", True, 5.9e-8, 1e-6, moved, (), ("fused_add_relu",)),
        ),
        observation=observation(),
        hand=(trace(),),
        pairs=pairs(),
    )


def wrong_comparison() -> Comparison:
    """A comparison whose hand-written kernel gives wrong numbers and writes out of bounds."""
    right = comparison()
    hand = replace(right.providers[2], ok=False, max_error=float("nan"))
    return replace(right, providers=(*right.providers[:2], hand), hand=(broken_trace(),))


def pairs() -> tuple[LinePair, ...]:
    lines = GENERATED_SOURCE.split("\n")

    def pair(part: str, hand_line: int, start: str) -> LinePair:
        hand = HAND_SOURCE.split("\n")[hand_line - 1].strip() if hand_line else ""
        place = next(number for number, line in enumerate(lines, start=1) if line.strip().startswith(start))
        return LinePair(part, hand_line, hand, place, lines[place - 1].strip())

    return (
        pair("program_id", 4, "xoffset ="),
        pair("program_id", 5, "xindex ="),
        pair("mask", 6, "xmask ="),
        pair("load", 7, "tmp0 ="),
        pair("load", 8, "tmp1 ="),
        pair("compute", 0, "tmp2 ="),
        pair("store", 9, "tl.store"),
    )


def script_run() -> ScriptRun:
    """A script that launched one kernel three times, a broken one once, and compiled one function."""
    return ScriptRun(FILE, 0, (trace(), trace(), broken_trace(), trace()), (observation(),), ("a note",))


RECORDS = {
    "observation": observation(),
    "attention": attention(),
    "trace": trace(),
    "broken_trace": broken_trace(),
    "comparison": comparison(),
    "wrong_comparison": wrong_comparison(),
    "script_run": script_run(),
}


def check() -> Check:
    """A check that fails in three ways: lanes past the end, a layout, a shape that does not compile."""
    outside = CheckedFinding(
        kind="out-of-bounds", file=FILE, line=18, programs=(0,), program_count=1, lanes=(1, 1023), lane_count=1023,
        tensor="x", message="load of x reads past its end", hint="mask with offsets < n", case="f32[1]", case_count=4,
        launch_count=4, source="x = tl.load(x_ptr + offsets)",
    )  # fmt: skip
    loose = CheckedFinding(
        kind="precision", file=FILE, line=20, programs=(), program_count=0, lanes=(0, 0), lane_count=0, tensor="out",
        message="adds in float16", hint="add in float32", level="warning", case="f16[1024]",
    )  # fmt: skip
    contiguous, tolerance = "contiguous", {"f32": 1e-5, "f16": 4e-3}
    grids, kinds = ((1, 1, 1),), ("out-of-bounds",)
    refused = f"failed: {FILE}:30: the kernel does not compile"
    cases = (
        CheckedCase("f32[0]", ((0,),), "f32", contiguous, False, note=refused),
        CheckedCase("f32[1]", ((1,),), "f32", contiguous, True, 0.0, 1e-5, grids=grids, kinds=kinds),
        *(CheckedCase(f"{d}[1024]", ((1024,),), d, contiguous, True, 2e-8, t) for d, t in tolerance.items()),
        CheckedCase("f32[1024]", ((1024,),), "f32", "x sliced [..., ::2]", False, float("inf"), 1e-5),
        CheckedCase("f32[1024]", ((1024,),), "f32", "x transposed", None, note="refused: no"),
    )
    return Check("case:ADD", "h200", cases, (outside, loose), 5, "f32[0]", ("layouts were tried on f32[1024]",))
