"""Lesson 04c: add and relu in one kernel. 融合：add 和 relu 在同一个 kernel 里做完。

    python 04c_triton_fused_add_relu.py            # fused against eager: numbers, bytes, time
    python 04c_triton_fused_add_relu.py --op add   # without the relu: nothing is left to fuse
    tilesight compare 04c_triton_fused_add_relu.py:CASE   # beside what torch.compile generates

With a GPU it runs there; without one it runs on the CPU through Tilesight's engine.
"""

import torch
import triton
import triton.language as tl

import tilesight
from tilesight.learn import lesson


@triton.jit
def add_relu_kernel(x_ptr, y_ptr, out_ptr, n, RELU: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)  # which tile  第几块 tile
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n  # which lanes exist  哪些 lane 有效
    x = tl.load(x_ptr + offsets, mask=mask)  # 4n bytes in
    y = tl.load(y_ptr + offsets, mask=mask)  # 4n bytes in
    out = x + y  # in registers; eager stores it to HBM  留在寄存器；eager 写回 HBM
    if RELU:
        out = tl.maximum(out, 0.0)  # ... and loads it again  ……再读一遍
    tl.store(out_ptr + offsets, out, mask=mask)  # 4n bytes out


def add_relu(x, y, relu=True, block_size=1024):
    """relu(x + y), or x + y without relu, by one kernel."""
    out = torch.empty_like(x)
    n = x.numel()
    grid = (triton.cdiv(n, block_size),)
    add_relu_kernel[grid](x, y, out, n, RELU=relu, BLOCK_SIZE=block_size)
    return out


def add_only(x, y):
    """x + y by the same kernel."""
    return add_relu(x, y, relu=False)


def eager_add_relu(x, y):
    return torch.relu(x + y)


def eager_add(x, y):
    return x + y


CASE = tilesight.Case(eager=eager_add_relu, hand=add_relu, inputs="f32[100000],f32[100000]")
CASE_ADD = tilesight.Case(eager=eager_add, hand=add_only, inputs="f32[100000],f32[100000]")


def show_bytes(here, result):
    """Bytes through HBM of eager and of the kernel, and the round trips that make the difference."""
    n = 100_000
    for provider in result.providers:
        if provider.name in ("eager", "hand"):
            moved = provider.bytes.touched
            here.say(
                f"{provider.name:6s} {moved:9,d} bytes = {moved / n:.0f}n   round trips: {len(provider.round_trips)}",
                f"{provider.name:6s} {moved:9,d} 字节 = {moved / n:.0f}n   往返次数：{len(provider.round_trips)}",
            )
    trips = result.observation.ledger.eager_round_trips
    for trip in trips:
        here.say(
            f"fusion removes the round trip of {trip.tensor}: {trip.written_by} stores it, "
            f"{', '.join(trip.read_by)} loads it again: {trip.bytes:,d} bytes = {trip.bytes / n:.0f}n",
            f"融合省掉的往返：{trip.tensor} 由 {trip.written_by} 写回，又被 {', '.join(trip.read_by)} 读出，"
            f"共 {trip.bytes:,d} 字节 = {trip.bytes / n:.0f}n",
        )
    if not trips:
        here.say("no intermediate goes through HBM: nothing to fuse", "没有中间张量经过 HBM：没有可融合的")


def main():
    arguments = lesson.parser("add + relu in one kernel, against eager")
    arguments.add_argument("--op", choices=("add+relu", "add"), default="add+relu")
    options = arguments.parse_args()
    here = lesson.start(options.lang)
    here.say_where()
    case, hand = (CASE, add_relu) if options.op == "add+relu" else (CASE_ADD, add_only)

    here.title("bytes through HBM, n = 100000, fp32", "经过 HBM 的字节，n = 100000，fp32")
    show_bytes(here, tilesight.compare(case))

    here.title("fused against eager", "融合 vs eager")
    x, y = (tensor.to(here.device) for tensor in case.make_inputs())
    print("allclose", torch.allclose(hand(x, y), case.eager(x, y)))
    if here.on_gpu:  # a coarse time: large enough to leave the caches  粗计时
        x, y = torch.randn(2, 2**26, device="cuda")
        here.say_time("fused", lesson.seconds_per_call(here, hand, x, y))
        here.say_time("eager", lesson.seconds_per_call(here, case.eager, x, y))
    else:
        here.say(
            "time: needs a GPU (the engine's time is no GPU's); the bytes above are what decides it",
            "计时需要 GPU（引擎的时间不代表 GPU）；决定快慢的是上面的字节数",
        )


if __name__ == "__main__":
    main()
