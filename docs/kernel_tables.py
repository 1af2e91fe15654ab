"""The tables of docs/kernels.md and of the READMEs: the hand-written kernels beside the others on a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from figure_tables import RESULTS, table

NAME = "kernels_h200"
HEADLINE = (
    ("add_relu", (1 << 28,)),
    ("softmax", (32768, 4096)),
    ("softmax", (1024, 131072)),
    ("rms_norm", (1024, 131072)),
    ("layer_norm_backward", (16384, 8192)),
    ("cross_entropy_both", (8192, 131072)),
    ("matmul", (4096, 4096, 4096)),
    ("attention", (4, 16, 4096, 128)),
)
"""Rows of the READMEs' table, of those that were measured."""
TITLES = {
    "eager": "eager", "compiled": "`torch.compile`", "compiled_max": "max-autotune", "hand": "Tilesight",
    "liger": "Liger", "flag_gems": "FlagGems", "quack": "QuACK", "flash": "FlashAttention 2", "cudnn": "cuDNN",
    "flash_attn": "flash-attn",
}  # fmt: skip
NOT_YET = {"en": "Not measured on a GPU yet.", "zh": "尚未在 GPU 上测量。"}
HEADS = {"en": ("operator", "the next best", "of it"), "zh": ("算子", "其他最快者", "为其")}

Case = Mapping[str, Any]


def record_or_none() -> dict[str, Any] | None:
    """What benchmarks/kernels_on_gpu.py wrote; None where it has not run."""
    path = RESULTS / f"{NAME}.json"
    return json.loads(path.read_text()) if path.is_file() else None


def seconds(case: Case, provider: str, clock: str = "device_us") -> float | None:
    """Median of a call; None where the provider has no time."""
    samples = case["providers"].get(provider, {}).get(clock)
    return median(samples) * 1e-6 if samples else None


def rate(case: Case, provider: str) -> float | None:
    """GB/s of the fewest bytes, or TFLOP/s of an operator that has FLOPs."""
    taken = seconds(case, provider)
    if taken is None:
        return None
    return case["ideal_bytes"] / taken / 1e9 if case["flops"] is None else case["flops"] / taken / 1e12


def unit(case: Case) -> str:
    return "GB/s" if case["flops"] is None else "TFLOP/s"


def others(case: Case) -> dict[str, float]:
    """Provider → rate, without ours."""
    rates = {name: rate(case, name) for name in case["providers"] if name != "hand"}
    return {name: value for name, value in rates.items() if value is not None}


def share_of_best(case: Case) -> float | None:
    """Our rate over the best of the others'."""
    mine, rest = rate(case, "hand"), others(case)
    return mine / max(rest.values()) if mine is not None and rest else None


def roof(record: Mapping[str, Any], case: Case) -> float:
    return record["sessions"][case["session"]]["copy_gb_per_s"]


def share_of_roof(record: Mapping[str, Any], case: Case, provider: str = "hand") -> float | None:
    """Of the copy in the same run."""
    mine = rate(case, provider)
    return mine / roof(record, case) if mine is not None and case["flops"] is None else None


def shape_text(case: Case) -> str:
    return " × ".join(f"{size:,}" for size in case["shape"])


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def measured_on(record: Mapping[str, Any]) -> str:
    """`2026-12-03, NVIDIA H200, torch 2.11.0, Triton 3.6.0, a copy at 4,253 GB/s`"""
    versions = record["versions"]
    roofs = [each["copy_gb_per_s"] for each in record["sessions"]]
    least, most = number(min(roofs)), number(max(roofs))
    copies = least if least == most else f"{least} to {most}"
    peers = [f"{name} {versions[name]}" for name in ("liger-kernel", "flag-gems", "quack-kernels") if name in versions]
    parts = [record["date"][:10], record["gpu"], f"torch {versions['torch']}", f"Triton {versions['triton']}", *peers]
    return f"{', '.join(parts)}; a copy moves {copies} GB/s; `{record['command']}`"


def headline(lang: str = "en") -> str:
    """The READMEs' table."""
    record = record_or_none()
    if record is None:
        return NOT_YET[lang]
    by_key = {(case["operator"], tuple(case["shape"])): case for case in record["cases"]}
    found = [by_key[key] for key in HEADLINE if key in by_key]
    what, best, share = HEADS[lang]
    rows = [_headline_row(case) for case in found if rate(case, "hand") is not None and others(case)]
    head = [what, "eager", "`torch.compile`", best, "**Tilesight**", share]
    return f"{table(head, rows)}\n\n{measured_on(record)}"


def _headline_row(case: Case) -> list[str]:
    name, value = max(others(case).items(), key=lambda item: item[1])
    return [
        f"{case['operator']} {shape_text(case)}, {unit(case)}",
        number(rate(case, "eager")),
        number(rate(case, "compiled")),
        f"{number(value)} ({TITLES.get(name, name)})",
        f"**{number(rate(case, 'hand'))}**",
        percent(share_of_best(case)),
    ]


def every_case() -> str:
    """A table for each operator; the fastest in bold."""
    record = record_or_none()
    if record is None:
        return NOT_YET["en"]
    ordered = sorted(record["cases"], key=lambda case: (case["operator"], case["dtype"], case["shape"][-1:]))
    tables = [
        _operator_table(record, f"{name} {dtype}, {unit(cases[0])}", cases)
        for (name, dtype), grouped in groupby(ordered, lambda case: (case["operator"], case["dtype"]))
        for cases in [list(grouped)]
    ]
    return f"{measured_on(record)}\n\n" + "\n\n".join(tables)


def _operator_table(record: Mapping[str, Any], title: str, cases: Sequence[Case]) -> str:
    present = {name for case in cases for name in case["providers"]}
    names = [name for name in TITLES if name in present] + sorted(present - set(TITLES))
    rows: list[list[str]] = []
    for case in cases:
        rates = {name: rate(case, name) for name in names}
        best = max((value for value in rates.values() if value is not None), default=None)
        cells = [f"**{number(value)}**" if value == best and best else number(value) for value in rates.values()]
        tail = [percent(share_of_best(case)), percent(share_of_roof(record, case))]
        rows.append([shape_text(case), *cells, *tail])
    head = ["shape", *(TITLES.get(name, name) for name in names), "of the next best", "of a copy"]
    return f"### {title}\n\n{table(head, rows)}"


def no_times() -> str:
    """Who has no time in which case, and why; wrong numbers beside the timed shape."""
    record = record_or_none()
    if record is None:
        return NOT_YET["en"]
    rows = [(f"{each['operator']} {shape_text(each)}", "all", each["reason"]) for each in record["failed"]]
    for case in record["cases"]:
        for name, found in case["providers"].items():
            wrong = [what for what, ok in found["checks"].items() if ok is False and what != "as timed"]
            reason = found["reason"] or (f"wrong numbers at {', '.join(wrong)}" if wrong else "")
            if reason:
                rows.append(
                    (f"{case['operator']} {shape_text(case)}", TITLES.get(name, name), reason.replace("|", "/"))
                )
    return table(["case", "provider", "reason"], rows) if rows else "All of them have times and right numbers."


def goals() -> str:
    """What was set out to be reached, and how far it is."""
    record = record_or_none()
    if record is None:
        return NOT_YET["en"]
    rows = [(text, *_goal(record, cases, figure, at_least)) for text, cases, figure, at_least in GOALS]
    return table(["goal", "cases", "least reached", "reached"], [row for row in rows if row[1]])


def _goal(
    record: Mapping[str, Any],
    is_meant: Callable[[Case], bool],
    figure: Callable[[Any, Case], float | None],
    least: float,
) -> tuple[int, str, str]:
    found = [(value, case) for case in record["cases"] if is_meant(case) for value in [figure(record, case)] if value]
    if not found:
        return 0, "", ""
    value, case = min(found, key=lambda each: each[0])
    text = percent(value) if least < 20 else number(value)
    return len(found), f"{text} at {case['operator']} {shape_text(case)}", "yes" if value >= least else "no"


def is_large(case: Case) -> bool:
    """Far more than any L2 holds."""
    return case["ideal_bytes"] >= 1 << 28


def of(*names: str) -> Callable[[Case], bool]:
    return lambda case: case["operator"] in names and is_large(case)


def is_small(case: Case) -> bool:
    """So short that Python's way to the launch counts."""
    return case["flops"] is None and case["ideal_bytes"] < 1 << 22


def _rate(_: Any, case: Case) -> float | None:
    return rate(case, "hand")


def _best(_: Any, case: Case) -> float | None:
    return share_of_best(case)


def _host(_: Any, case: Case) -> float | None:
    """Eager's time with Python over ours."""
    mine, eager = (seconds(case, name, "host_us") for name in ("hand", "eager"))
    return eager / mine if mine and eager else None


def _memory(_: Any, case: Case) -> float | None:
    """Eager's memory over ours."""
    mine, eager = (case["providers"].get(name, {}).get("peak_bytes") for name in ("hand", "eager"))
    return eager / mine if mine and eager else None


def _products(record: Any, case: Case) -> float | None:
    """The products' time alone over that of the whole step."""
    shape, mine = case["shape"], seconds(case, "hand")
    alone = [each for each in record["cases"] if each["operator"].endswith("_products") and each["shape"] == shape]
    products = seconds(alone[0], "eager") if alone else None
    return products / mine if products and mine else None


def _over(provider: str) -> Callable[[Any, Case], float | None]:
    """Our rate over a provider's."""

    def ratio(_: Any, case: Case) -> float | None:
        mine, theirs = rate(case, "hand"), rate(case, provider)
        return mine / theirs if mine and theirs else None

    return ratio


def _compiled(_: Any, case: Case) -> float | None:
    """Our rate over the better of torch.compile's two."""
    mine, theirs = rate(case, "hand"), [rate(case, name) for name in ("compiled", "compiled_max")]
    best = max((each for each in theirs if each), default=None)
    return mine / best if mine and best else None


def _is_extreme(case: Case) -> bool:
    """256 columns, or 8 rows of 131,072."""
    return case["operator"] in FORWARD and (case["shape"][-1] == 256 or case["shape"] == [8, 131072])


Goal = tuple[str, Callable[[Case], bool], Callable[[Any, Case], float | None], float]
FORWARD = ("softmax", "rms_norm", "add_rms_norm", "layer_norm")
EPILOGUES = ("matmul_bias_gelu", "matmul_swiglu")
ATTENTION = ("attention", "attention_causal")
ATTENTION_BACKWARD = tuple(f"{name}_backward" for name in ATTENTION)
LINEAR = of("linear_cross_entropy_both")


def _named(*names: str) -> Callable[[Case], bool]:
    """Products with all axes long."""
    return lambda case: case["operator"] in names and (len(case["shape"]) > 3 or min(case["shape"]) >= 2048)


GOALS: tuple[Goal, ...] = (
    ("pointwise (add+relu, SwiGLU, RoPE): 99% of the best other", of("add_relu", "swiglu", "rope"), _best, 0.99),
    ("softmax and norms forward, every width: 94% of a copy", of(*FORWARD), share_of_roof, 0.94),
    ("softmax and norms forward, every width: 99% of QuACK", of(*FORWARD), _over("quack"), 0.99),
    ("the same at 256 columns and at 8 rows of 131,072: ahead of `torch.compile`", _is_extreme, _compiled, 1),
    ("RMSNorm and LayerNorm backward: 3,500 GB/s", of("rms_norm_backward", "layer_norm_backward"), _rate, 3500),
    ("cross-entropy forward: 3,900 GB/s", of("cross_entropy"), _rate, 3900),
    ("cross-entropy forward and backward: 3,000 GB/s", of("cross_entropy_both"), _rate, 3000),
    ("linear-cross-entropy: the unfused one takes 6.7 × the memory", LINEAR, _memory, 1 / 0.15),
    ("linear-cross-entropy: its products alone take 87% of its time", LINEAR, _products, 1 / 1.15),
    ("matmul, 2,048 to 8,192 each way: 95% of cuBLAS", _named("matmul"), _over("eager"), 0.95),
    ("matmul with GELU or SwiGLU behind it: ahead of `torch.compile`", _named(*EPILOGUES), _compiled, 1),
    ("fp8 matmul: 90% of `scaled_mm`", _named("matmul_fp8"), _over("eager"), 0.9),
    ("attention forward: 1.6 × FlashAttention 2", _named(*ATTENTION), _over("flash"), 1.6),
    ("attention forward: 85% of cuDNN", _named(*ATTENTION), _over("cudnn"), 0.85),
    ("attention backward: 1.3 × FlashAttention 2", _named(*ATTENTION_BACKWARD), _over("flash"), 1.3),
    ("small shapes: eager takes 77% of our time with Python", is_small, _host, 1 / 1.3),
)
