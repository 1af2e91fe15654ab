"""What a lesson's script needs beside its kernel: a device, a language, a clock, tables of accesses."""

from __future__ import annotations

import argparse
import locale
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilesight.bench import coarse
from tilesight.capture.device import gpu_name
from tilesight.capture.enable import disable, enable
from tilesight.capture.subject import load_file
from tilesight.roads.model import Trace


class Lesson:
    """Speaks one language and knows where kernels run.

    Args:
        lang: `zh` or `en`
        device: where the lesson's tensors live: `cuda` where there is a GPU, else `cpu`
    """

    def __init__(self, lang: str, device: str) -> None:
        self.lang = lang
        self.device = device

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    def say(self, en: str, zh: str) -> None:
        """Print the sentence in the lesson's language."""
        print(zh if self.lang == "zh" else en, flush=True)

    def title(self, en: str, zh: str) -> None:
        """Print a heading."""
        self.say(f"\n== {en} ==", f"\n== {zh} ==")

    def say_where(self, target: str = "") -> None:
        """Say where kernels run, and what that means for the times."""
        if self.on_gpu:
            self.say(f"Device: {gpu_name()}", f"设备:{gpu_name()}")
            return
        self.say("Device: CPU; Triton runs on Tilesight's engine", "设备:CPU;Triton 由 Tilesight 的引擎执行")
        if target:
            self.say(f"torch.compile generates code for: {target}", f"torch.compile 生成代码的目标:{target}")

    def say_time(self, what: str, seconds: float) -> None:
        """A coarse time; without a GPU it is the engine's, which says nothing about a GPU's."""
        if self.on_gpu:
            self.say(
                f"{what}: {seconds * 1e6:.1f} µs on the GPU (coarse)", f"{what}:GPU 上 {seconds * 1e6:.1f} µs(粗计时)"
            )
        else:
            self.say(
                f"{what}: {seconds * 1e3:.1f} ms on the CPU engine (coarse; not a GPU's time)",
                f"{what}:CPU 引擎上 {seconds * 1e3:.1f} ms(粗计时,不代表 GPU 时间)",
            )

    def show_accesses(self, trace: Trace) -> None:
        """Each load and store of a launch: line, tensor, lanes, masked-off lanes, bytes."""
        self.say(
            "  line  access tensor        lanes   masked off        bytes",
            "    行  访问   张量           lane     被掩码关掉         字节",
        )
        for row in trace.traffic.rows:
            counts = f"{row.lanes:10,d} {row.masked_lanes:12,d} {row.bytes:12,d}"
            print(f"  {row.line:4d}  {row.kind:6s} {row.tensor:8s} {counts}")

    def show_findings(self, trace: Trace) -> None:
        """Each fault by name, line and lane, with the repair."""
        if not trace.findings:
            self.say("no out-of-bounds access", "没有越界访问")
        for finding in trace.findings:
            print(f"[{finding.kind}] {os.path.relpath(finding.file)}:{finding.line}: {finding.message}")
            self.say(f"    repair: {finding.hint}", f"    修法:{finding.hint}")


def parser(description: str) -> argparse.ArgumentParser:
    """An argument parser that has `--lang`."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--lang", choices=("en", "zh"), default=system_language(), help="output language")
    return made


def system_language() -> str:
    """`zh` where the locale is Chinese, else `en`."""
    named = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    if not named:
        named = locale.getlocale()[0] or ""
    return "zh" if named.lower().startswith(("zh", "chinese")) else "en"


def start(lang: str, *, compile_for: str | None = None) -> Lesson:
    """A lesson on the GPU where there is one; else the engine is switched on.

    Args:
        lang: `zh` or `en`
        compile_for: the GPU that torch.compile generates code for when there is none here
    """
    if gpu_name():
        return Lesson(lang, "cuda")
    enable(compile_for=compile_for)
    return Lesson(lang, "cpu")


def finish() -> None:
    """Switch the engine off again."""
    disable()


def seconds_per_call(lesson: Lesson, function: Callable[..., Any], *inputs: Any) -> float:
    """Median seconds of one call where the lesson runs; see `bench.coarse`."""
    return coarse.seconds_per_call(function, inputs, on_gpu=lesson.on_gpu)


def load(path: Path) -> Any:
    """Another lesson's script as a module: its name starts with a digit, so `import` cannot name it."""
    return load_file(path)
