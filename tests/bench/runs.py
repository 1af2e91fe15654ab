"""Runs made by hand for tests: their figures are easy to work out."""

from __future__ import annotations

from collections.abc import Sequence

from tilesight.bench.model import BenchCase, BenchRun, DeviceState, Environment, Measured, NumberCheck, Timing

ENVIRONMENT = Environment(
    date="2026-01-02T03:04:05+00:00",
    command="tilesight bench softmax",
    device="NVIDIA H200",
    is_gpu=True,
    driver="580.1",
    versions={"python": "3.12.3", "torch": "2.13.0"},
    datasheet_gb_per_s=4800.0,
    copy_gb_per_s=4000.0,
    before=DeviceState(1980, 3201, 120.5, 41),
    after=DeviceState(1875, 3201, 650, 55),
)
RIGHT = NumberCheck("as timed", True, 1e-3, 3e-2)


def timed(provider: str, device_s: Sequence[float], *checks: NumberCheck) -> Measured:
    return Measured(provider, (RIGHT, *checks), Timing("events", tuple(device_s), (3e-4, 5e-4, 4e-4), 2, 1, 4_000_000))


def case(*measured: Measured, operator: str = "softmax", shape: tuple[int, ...] = (1000, 2000)) -> BenchCase:
    """8,000,000 bytes: 2,000,000 bf16 elements in, as many out."""
    return BenchCase(operator, shape, "bfloat16", 8_000_000, None, measured)


def run(*cases: BenchCase, number: int | None = None) -> BenchRun:
    return BenchRun(ENVIRONMENT, cases, number)


def sample_run() -> BenchRun:
    """One provider of each fate."""
    refused = NumberCheck("odd sizes", None, reason="ValueError: columns")
    wrong = Measured("liger", (NumberCheck("as timed", False, 0.5, 3e-2),), None, "wrong numbers: off by 5.0e-01")
    absent = Measured("quack", reason="not installed: No module named 'quack'")
    eager, hand = timed("eager", [4e-6, 5e-6, 6e-6]), timed("hand", [2.4e-6, 2.5e-6, 2.6e-6], refused)
    return run(case(eager, hand, wrong, absent), case(eager, hand, shape=(10, 200_000)), number=1)
