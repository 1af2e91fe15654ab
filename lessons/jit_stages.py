"""JIT, step by step: 04c's kernel from Python to machine code. 即时编译逐级看：从 Python 到机器码。

    python jit_stages.py               # specialisation, caches, and the key lines of every stage
    python jit_stages.py --n 100001    # not divisible by 16: the same kernel, four times as many loads
    python jit_stages.py --stage ptx   # one stage in full

Compiles for an H100 or H200 (sm_90); needs no GPU, and launches nothing.
"""

import os
import re
import tempfile
import time
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget

from tilesight.learn import lesson

KERNEL = lesson.load(Path(__file__).parent / "04c_triton_fused_add_relu.py").add_relu_kernel
SM_90 = GPUTarget("cuda", 90, 32)  # 32 threads a warp
WIDTH = 116

# What to look for, in the kernel's own order.  按 kernel 自己的顺序找这些
KEYS = {
    "ttir": ("get_program_id", "make_range", "cmpi slt", "tt.load", "arith.addf", "arith.maxnumf", "tt.store"),
    "ttgir": ("#blocked = ", '"ttg.num-warps" = ', "tt.load"),
    "llir": ("ctaid.x(),", "tid.x(),", "icmp slt", "ld.global", "fadd", "@llvm.maxnum", "st.global"),
    "ptx": (".target", ".reqntid", "%ctaid.x", "%tid.x", "setp.lt", "ld.global", "add.f32", "max.f32", "st.global"),
}
TITLES = {
    "ttir": ("TTIR: a tile is one value", "TTIR：一块 tile 是一个值"),
    "ttgir": ("TTGIR: which thread holds which elements", "TTGIR：哪根线程拿哪些元素"),
    "llir": ("LLVM IR: one thread's work", "LLVM IR：一根线程的活"),
    "ptx": ("PTX: NVIDIA's virtual assembly", "PTX：NVIDIA 的虚拟汇编"),
}


def specialise(n):
    """The kernel as Triton specialises it for three float32 tensors and this n; nothing is launched."""
    f32 = torch.float32  # stands for an aligned tensor of that dtype  代表一个对齐的张量
    return KERNEL.warmup(f32, f32, f32, n, RELU=True, BLOCK_SIZE=1024, grid=(triton.cdiv(n, 1024),)).src


def show_specialisation(here):
    here.title("what is fixed before compiling", "编译前固定下来的东西")
    for n in (100_000, 100_001, 1, 2**31):
        source = specialise(n)
        value = source.constants.get((3,), "")
        divides = " divisible by 16" if source.attrs.get((3,)) else ""
        print(f"  n = {n:<10d}  {source.signature['n']}{divides}{f' = {value}' if value else ''}")


def show_caches(here, source):
    """Time to the compiled kernel: from nothing, from the disk, from this process."""
    os.environ["TRITON_CACHE_DIR"] += "/stages"  # empty: on a GPU, specialise() has filled the other  空目录
    here.title("three ways to the same kernel", "拿到同一个 kernel 的三条路")
    compiled, seconds = timed(triton.compile, source, target=SM_90)
    here.say(f"  every stage        {seconds * 1e3:8.2f} ms", f"  逐级编译      {seconds * 1e3:8.2f} ms")
    seconds = min(timed(triton.compile, source, target=SM_90)[1] for _ in range(5))
    here.say(f"  disk cache         {seconds * 1e3:8.2f} ms", f"  磁盘缓存      {seconds * 1e3:8.2f} ms")
    seconds = min(timed(specialise, 100_000)[1] for _ in range(5))
    here.say(f"  in-process cache   {seconds * 1e3:8.2f} ms", f"  进程内缓存    {seconds * 1e3:8.2f} ms")
    files = Path(os.environ["TRITON_CACHE_DIR"]).glob("*/add_relu_kernel.*")
    print("  " + " ".join(sorted({path.suffix for path in files})))
    return compiled


def timed(function, *args, **options):
    started = time.perf_counter()
    result = function(*args, **options)
    return result, time.perf_counter() - started


def key_lines(text, keys):
    """The first line that holds each key, without its source location, cut to the page."""
    for key in keys:
        line = next(line for line in text.splitlines() if key in line and "declare" not in line)
        line = re.sub(r" loc\(.*?\)$|, !dbg .*$|\s*//.*$", "", line).strip().replace("\t", "")
        yield line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def show_stages(here, compiled):
    for stage, keys in KEYS.items():
        here.title(*TITLES[stage])
        for line in key_lines(compiled.asm[stage], keys):
            print(f"  {line}")
    here.title("what one thread loads", "一根线程读多少")
    wide, narrow = (compiled.asm["ptx"].count(load) for load in ("ld.global.v4.b32", "ld.global.b32"))
    here.say(
        f"  {wide} loads of 16 bytes, {narrow} of 4 bytes", f"  16 字节的 load {wide} 次，4 字节的 load {narrow} 次"
    )
    here.say(f"  cubin: {len(compiled.asm['cubin']):,} bytes", f"  cubin：{len(compiled.asm['cubin']):,} 字节")


def main():
    arguments = lesson.parser("Every stage of 04c's kernel, from Python to cubin")
    arguments.add_argument("--n", type=int, default=100_000, help="the value that the kernel is specialised for")
    arguments.add_argument("--stage", choices=("source", *KEYS), help="print one stage in full")
    options = arguments.parse_args()
    here = lesson.start(options.lang)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder  # an empty disk cache of our own  自己的空缓存
        if options.stage:
            print(triton.compile(specialise(options.n), target=SM_90).asm[options.stage])
            return
        show_specialisation(here)
        show_stages(here, show_caches(here, specialise(options.n)))


if __name__ == "__main__":
    main()
