"""Lesson 04b: a vector add, one tile a program. 向量加：每个 program 处理一块 tile。

    python 04b_triton_vector_add.py                    # n = 100000, BLOCK_SIZE = 1024
    python 04b_triton_vector_add.py --block-size 256   # smaller tiles, larger grid
    python 04b_triton_vector_add.py --no-mask          # what the mask is for

With a GPU it runs there; without one it runs on the CPU through Tilesight's engine.
"""

import torch
import triton
import triton.language as tl

import tilesight
from tilesight.learn import lesson


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    # Part 1, program id -> tile. pid numbers tiles, not threads.  第一件：pid 是第几块 tile，不是第几根线程。
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    # Part 2, mask: n need not divide by BLOCK_SIZE.  第二件：n 未必整除 BLOCK_SIZE，越界的 lane 关掉。
    mask = offsets < n
    # Part 3, load and store: one whole tile crosses HBM.  第三件：一次搬一整块 tile。
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def add_kernel_no_mask(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    # The same without a mask: the last tile reaches past the end.  少了 mask：尾块会越界。
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets)
    tl.store(out_ptr + offsets, x + y)


def add(x, y, block_size=1024, kernel=add_kernel):
    """x + y by the kernel: one program for every block_size elements."""
    out = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, block_size),)  # how many tiles cover n elements  需要几块 tile
    kernel[grid](x, y, out, n, BLOCK_SIZE=block_size)
    return out


CASE = tilesight.Case(eager=lambda x, y: x + y, hand=add, inputs="f32[100000],f32[100000]")


def show_tiles(say, n, block_size):
    """The grid, and what the mask switches off in the last tile."""
    grid = triton.cdiv(n, block_size)
    first, last, off = (grid - 1) * block_size, grid * block_size - 1, grid * block_size - n
    say(f"n = {n}, BLOCK_SIZE = {block_size}", f"n = {n}，BLOCK_SIZE = {block_size}")
    say(f"grid = cdiv(n, BLOCK_SIZE) = {grid} programs", f"grid = cdiv(n, BLOCK_SIZE) = {grid} 个 program")
    say(
        f"tail: program {grid - 1} covers {first}..{last}; {off} lanes masked off",
        f"尾块：第 {grid - 1} 个 program 覆盖 {first}..{last}；{off} 个 lane 被 mask 关掉",
    )


def main():
    arguments = lesson.parser("Vector add, one tile a program")
    arguments.add_argument("--n", type=int, default=100_000)
    arguments.add_argument("--block-size", type=int, default=1024)
    arguments.add_argument("--no-mask", action="store_true", help="show what goes wrong without the mask")
    options = arguments.parse_args()
    here = lesson.start(options.lang)
    here.say_where()
    show_tiles(here.say, options.n, options.block_size)

    torch.manual_seed(0)
    x, y = torch.randn(options.n), torch.randn(options.n)  # on the CPU, for the engine's trace  供引擎追踪
    kernel = add_kernel_no_mask if options.no_mask else add_kernel
    here.title("what each line moves", "每一行搬了什么")
    trace = tilesight.trace(add, x, y, options.block_size, kernel)[0]
    here.show_accesses(trace)
    here.show_findings(trace)
    if options.no_mask:  # only the engine runs it: there, nothing is harmed  只在引擎里跑，不会弄坏任何东西
        return

    here.title("result", "结果")
    x, y = x.to(here.device), y.to(here.device)
    out = add(x, y, options.block_size)
    print("allclose", torch.allclose(out, x + y))
    here.say_time("add", lesson.seconds_per_call(here, add, x, y, options.block_size))


if __name__ == "__main__":
    main()
