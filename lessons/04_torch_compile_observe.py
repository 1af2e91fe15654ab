"""Lesson 04: what torch.compile makes of add + relu. 看 torch.compile 做了什么。

    python 04_torch_compile_observe.py
    TORCH_LOGS=output_code python 04_torch_compile_observe.py 2>&1 | tee dumps/compile.log
    grep -n triton dumps/compile.log

FX graph -> Inductor's fused group -> generated Triton kernel -> first and second call -> beside your 04c.
Without a GPU the code is generated for --target and runs on the CPU through Tilesight's engine.
"""

import time
from pathlib import Path

import torch

import tilesight
from tilesight.learn import lesson

HERE = Path(__file__).parent


def add_relu(x, y):
    t = x + y  # two operators for eager ...  eager 是两个算子……
    return torch.relu(t)  # ... one kernel for Inductor  ……Inductor 融合成一个 kernel


def show_graph(here, seen):
    here.title("1. FX graph: what Dynamo caught", "1. FX 图：Dynamo 抓到的")
    for op in seen.graph.fx:
        code = op.code.split("#")[0].strip()
        print(f"  {op.name:8s} = {op.target + '(' + ', '.join(op.inputs) + ')':22s} # {Path(op.source).name}  {code}")
    here.title("2. ATen graph and fused groups: what Inductor decided", "2. ATen 图与融合组：Inductor 的决定")
    for op in seen.graph.ops:
        print(f"  {op.name:8s} = {op.target}")
    for kernel in seen.kernels:
        here.say(
            f"  one kernel for {' + '.join(kernel.ops)}: {kernel.name}",
            f"  {' + '.join(kernel.ops)} 合成一个 kernel：{kernel.name}",
        )


def show_kernel(here, kernel):
    here.title("3. the generated kernel, its three parts marked", "3. 生成的 kernel，标出三件套")
    names = {
        "program_id": ("pid -> tile", "pid → tile"),
        "load": ("load", "load 读"),
        "store": ("store", "store 写"),
        "mask": ("mask", "mask 掩码"),
    }
    lines = kernel.source.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("@triton.jit"))
    for number, line in enumerate(lines[start:], start=start + 1):
        marks = [names[part][here.lang == "zh"] for part in kernel.parts.of(number)]
        print(f"  {number:3d}  {line:62s} {'<- ' + ', '.join(marks) if marks else ''}".rstrip())
    here.say(f"grid {kernel.grid}, config {kernel.config}", f"grid {kernel.grid}，配置 {kernel.config}")


def show_calls(here, x, y):
    here.title("4. first call, second call", "4. 第一次调用与第二次调用")
    compiled = torch.compile(add_relu)
    calls = (
        ("first call (compile + run)", "第一次（编译 + 运行）"),
        ("second call (cache + run)", "第二次（缓存 + 运行）"),
    )
    for en, zh in calls:
        started = time.perf_counter()
        compiled(x, y)
        if here.on_gpu:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        here.say(f"  {en}: {seconds * 1e3:.1f} ms", f"  {zh}：{seconds * 1e3:.1f} ms")
    print("  allclose", torch.allclose(compiled(x, y), add_relu(x, y)))


def show_pairs(here, result):
    here.title("5. your 04c beside Inductor's kernel", "5. 你的 04c 与 Inductor 的 kernel 对照")
    for pair in result.pairs:
        print(f"  {pair.part:10s} | {pair.hand.split('#')[0].strip():52s} | {pair.generated}")
    for provider in result.providers:
        print(f"  {provider.name:8s} ok={provider.ok}  bytes={provider.bytes.touched:,}")


def main():
    arguments = lesson.parser("What torch.compile makes of add + relu")
    arguments.add_argument("--target", default="h200", help="GPU to generate code for")
    options = arguments.parse_args()
    here = lesson.start(options.lang, compile_for=options.target)
    here.say_where(options.target)

    seen = tilesight.observe(add_relu, "f32[100000]", "f32[100000]", target=options.target)
    show_graph(here, seen)
    show_kernel(here, seen.kernels[0])
    torch.manual_seed(0)
    x, y = torch.randn(100_000, device=here.device), torch.randn(100_000, device=here.device)
    show_calls(here, x, y)
    hand_written = lesson.load(HERE / "04c_triton_fused_add_relu.py")
    show_pairs(here, tilesight.compare(hand_written.CASE, target=options.target))


if __name__ == "__main__":
    main()
