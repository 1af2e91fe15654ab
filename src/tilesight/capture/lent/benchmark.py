"""Triton's own benchmark functions where there is no GPU to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from tilesight.capture.lent.cuda_module import TIMES_ARE_THE_CPUS


def benchmark_patches(say: Callable[[str], None]) -> dict[str, Any]:
    """Functions to put in triton.testing, by name.

    Each runs its function once and returns the CPU's time for it: repeating would cost minutes and
    say nothing more.
    """

    def run_once(fn: Callable[[], Any], *_: Any, **options: Any) -> Any:
        say(f"{TIMES_ARE_THE_CPUS}; do_bench runs its function once")
        started = perf_counter()
        fn()
        return _summary((perf_counter() - started) * 1e3, options)

    return {"do_bench": run_once, "do_bench_cudagraph": run_once}


def _summary(time_ms: float, options: dict[str, Any]) -> float | list[float]:
    """One time in the form that `quantiles` and `return_mode` ask for."""
    quantiles: Sequence[float] | None = options.get("quantiles")
    if quantiles is not None:
        return [time_ms] * len(quantiles) if len(quantiles) > 1 else time_ms
    return [time_ms] if options.get("return_mode") == "all" else time_ms
