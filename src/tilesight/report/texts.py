"""Numbers as people read them: bytes, times, counts, errors, shapes. kB, MB and GB are powers of 1000."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def bytes_text(count: int) -> str:
    """`1.2 MB`, three digits at most; below 1000 the exact count."""
    if abs(count) < 1000:
        return f"{count} B"
    value, unit = float(count), 0
    while abs(value) >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{three_digits(value)} {_BYTE_UNITS[unit]}"


def exact_bytes(count: int) -> str:
    """`1,200,000 B`"""
    return f"{count:,} B"


def three_digits(value: float) -> str:
    """`1.23`, `12.3`, `123`; a round value keeps one decimal below 100: `2.0`."""
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    if abs(value) >= 9.995:
        return f"{value:.1f}"
    text = f"{value:.2f}"
    return text.removesuffix("0")


def count_text(count: int) -> str:
    """`100,000`"""
    return f"{count:,}"


def seconds_text(seconds: float) -> str:
    """`1.23 s`, `4.5 ms` or `12.3 µs`, whichever keeps the figure above 1."""
    if seconds >= 1 or seconds == 0:
        return f"{three_digits(seconds)} s"
    if seconds >= 1e-3:
        return f"{three_digits(seconds * 1e3)} ms"
    return f"{three_digits(seconds * 1e6)} µs"


def microseconds_text(time_us: float) -> str:
    """`12.3 µs`; a millisecond and more in ms."""
    return seconds_text(time_us * 1e-6)


def error_text(error: float) -> str:
    """`0`, `1.2e-07`, `nan` or `inf`."""
    if error == 0:
        return "0"
    return f"{error:.1e}" if math.isfinite(error) else str(error)


def share_text(share: float) -> str:
    """`93 %`; a decimal below ten per cent."""
    percent = share * 100
    return f"{percent:.0f} %" if percent >= 9.95 or percent == 0 else f"{percent:.1f} %"


def grid_text(grid: Iterable[int]) -> str:
    """`(98,)`; trailing ones are left out, as a launch writes it."""
    sizes = list(grid)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(map(str, sizes))})"


def tensor_type_text(dtype: str, shape: Iterable[int | str]) -> str:
    """`f32[100000]`, the form that `--inputs` takes."""
    return f"{short_dtype(dtype)}[{', '.join(map(str, shape))}]" if dtype else ""


def short_dtype(dtype: str) -> str:
    """`f32` for `float32`, `bf16` for `bfloat16`, `i64` for `int64`; others as they are."""
    name = dtype.removeprefix("torch.")
    for long, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if name.startswith(long) and name[len(long) :].isdigit():
            return short + name[len(long) :]
    return name


def settings_text(settings: Mapping[str, object]) -> str:
    """`BLOCK_SIZE=1024 num_warps=4`"""
    return " ".join(f"{name}={value}" for name, value in settings.items())


def short_source(source: str) -> str:
    """`vec.py:8` for `/home/me/src/vec.py:8`."""
    return source.rsplit("/", 1)[-1]


def short_paths(text: str) -> str:
    """The text with each `/home/me/src/vec.py` in it as `vec.py`."""
    return re.sub(r"(?<![\w.])/(?:[^\s:/]+/)*([^\s:/]+\.py)", r"\1", text)
