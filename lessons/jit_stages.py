"""JIT step by step: 04c's kernel from Python to machine code, no GPU needed. 从 Python 到机器码,逐级看,不需要 GPU。

    python jit_stages.py                 # the key lines of every stage, for an H100/H200 (sm_90)
    python jit_stages.py --unaligned     # the same when nothing is known to divide by 16: narrow loads
    python jit_stages.py --stage ptx     # one stage in full
"""

import os
import re
import tempfile
import time
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tilesight.learn import lesson

HERE = Path(__file__).parent
KERNEL = lesson.load(HERE / "04c_triton_fused_add_relu.py").add_relu_kernel

# What to look for in each stage, in the kernel's own order: tile, lanes, mask, load, add, max, store.
KEYS = {
    "ttir": ("get_program_id", "make_range", "cmpi slt", "tt.load", "arith.addf", "arith.maxnumf", "tt.store"),
    "ttgir": ("#blocked = ", "module attributes", "tt.load"),
    "llir": ("ctaid.x(),", "tid.x(),", "icmp slt", "ld.global", "fadd", "@llvm.maxnum", "st.global"),
    "ptx": (".target", ".reqntid", "%ctaid.x", "%tid.x", "setp.lt", "ld.global", "add.f32", "max.f32", "st.global"),
}
TITLES = {
    "ttir": ("TTIR: a tile is one value", "TTIR:一块 tile 是一个值"),
    "ttgir": ("TTGIR: which lane holds which element", "TTGIR:哪个 lane 拿哪些元素"),
    "llir": ("LLVM IR: one thread's work", "LLVM IR:一根线程的活"),
    "ptx": ("PTX: NVIDIA's virtual assembly", "PTX:NVIDIA 的虚拟汇编"),
}


def compile_kernel(is_aligned):
    """add_relu_kernel for sm_90, as Triton would specialise it for three aligned tensors and n = 100000."""
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32",
                 "RELU": "constexpr", "BLOCK_SIZE": "constexpr"}  # fmt: skip
    constexprs = {(4,): True, (5,): 1024}  # argument number -> value, burnt into the code  写死进代码
    divides_by_16 = {(number,): [["tt.divisibility", 16]] for number in range(4)} if is_aligned else {}
    source = ASTSource(KERNEL, signature, constexprs, divides_by_16)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32))


def key_lines(text, keys):
    """The first line that holds each key, without source locations, cut to the page's width."""
    for key in keys:
        line = next(line for line in text.splitlines() if key in line and "declare" not in line)
        line = re.sub(r" loc\(.*?\)$|, !dbg .*$|\s*//.*$", "", line).strip()
        yield line if len(line) <= 116 else line[:113] + "..."


def show_stages(here, compiled):
    for stage, keys in KEYS.items():
        here.title(*TITLES[stage])
        for line in key_lines(compiled.asm[stage], keys):
            print(f"  {line}")
    here.title("what one thread moves", "一根线程搬多少")
    ptx = compiled.asm["ptx"]
    wide, narrow = ptx.count("ld.global.v4.b32"), ptx.count("ld.global.b32")
    here.say(
        f"  {wide} loads of 16 bytes, {narrow} loads of 4 bytes",
        f"  {wide} 次 16 字节的 load,{narrow} 次 4 字节的 load",
    )
    here.say(f"  cubin: {len(compiled.asm['cubin']):,} bytes", f"  cubin:{len(compiled.asm['cubin']):,} 字节")


def show_cache(here, is_aligned):
    """The disk cache: the second compilation finds every stage by its key."""
    here.title("the disk cache", "磁盘缓存")
    for en, zh in (("first compilation", "第一次编译"), ("second compilation", "第二次编译")):
        started = time.perf_counter()
        compiled = compile_kernel(is_aligned)
        milliseconds = (time.perf_counter() - started) * 1e3
        here.say(f"  {en}: {milliseconds:.0f} ms", f"  {zh}:{milliseconds:.0f} ms")
    print("  " + " ".join(sorted(path.name for path in Path(os.environ["TRITON_CACHE_DIR"]).glob("*/*.*"))))
    return compiled


def main():
    arguments = lesson.parser("Every stage of 04c's kernel, from Python to cubin")
    arguments.add_argument("--unaligned", action="store_true", help="compile without 'divides by 16'")
    arguments.add_argument("--stage", choices=(*KEYS, "source"), help="print one stage in full")
    options = arguments.parse_args()
    here = lesson.Lesson(options.lang, "cpu")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder  # an empty cache of our own  自己的空缓存
        if options.stage:
            print(compile_kernel(not options.unaligned).asm[options.stage])
            return
        show_stages(here, show_cache(here, not options.unaligned))


if __name__ == "__main__":
    main()
