"""What a bench run keeps: the environment, each provider's numbers and all of its samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

NOT_INSTALLED = "not installed"
"""Begins the reason of a peer that is not here."""

Method = Literal["graph", "events", "wall"]
"""How device time was taken: a replayed CUDA graph, a pair of events, or the wall clock of a CPU."""


@dataclass(frozen=True)
class Timing:
    """One provider's samples of a case.

    Args:
        method: of `device_s`
        device_s: seconds of a call on the device, one a sample; L2 is cold
        host_s: seconds of a call from Python to the end of its work, one a sample; L2 is warm
        input_sets: sets of inputs that the calls took in turn
        kernels: launched by one call; None where they are not counted
        peak_bytes: the most memory that one call takes at a time, on top of its inputs; None where it is not counted
    """

    method: Method
    device_s: tuple[float, ...]
    host_s: tuple[float, ...]
    input_sets: int
    kernels: int | None = None
    peak_bytes: int | None = None

    @property
    def median_s(self) -> float:
        return median(self.device_s)

    @property
    def host_median_s(self) -> float:
        return median(self.host_s)


@dataclass(frozen=True)
class NumberCheck:
    """Outputs against float64, before anything is timed.

    Args:
        what: `as timed`, `odd sizes` or `strided rows`
        ok: None where the provider takes no such inputs, as `reason` says
    """

    what: str
    ok: bool | None
    max_error: float | None = None
    tolerance: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Measured:
    """A provider in a case: without a timing where its numbers are wrong or it can't run, as `reason` says."""

    provider: str
    checks: tuple[NumberCheck, ...] = ()
    timing: Timing | None = None
    reason: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether the numbers are right at what is timed; None where it did not come to numbers."""
        return next((check.ok for check in self.checks if check.what == "as timed"), None)


def described(operator: str, shape: Sequence[int], dtype: str) -> str:
    """`softmax 8192x16384 bfloat16`"""
    return f"{operator} {'x'.join(map(str, shape))} {dtype}"


@dataclass(frozen=True)
class BenchCase:
    """One operator at one shape and dtype.

    Args:
        operator: its name, or a user's FILE.py:CASE
        shape: what the operator's inputs are made from
        dtype: `bfloat16` and so on
        ideal_bytes: the fewest bytes that any implementation moves: each input and each output once
        flops: of a compute-bound operator; None for one that is judged by its bytes
    """

    operator: str
    shape: tuple[int, ...]
    dtype: str
    ideal_bytes: int
    flops: int | None
    measured: tuple[Measured, ...]

    @property
    def key(self) -> tuple[str, tuple[int, ...], str]:
        return self.operator, self.shape, self.dtype

    def gb_per_s(self, timing: Timing) -> float:
        return self.ideal_bytes / timing.median_s / 1e9

    def tflop_per_s(self, timing: Timing) -> float | None:
        return None if self.flops is None else self.flops / timing.median_s / 1e12

    @property
    def best(self) -> Measured | None:
        """The fastest provider whose numbers are right."""
        timed = [each for each in self.measured if each.timing is not None]
        return min(timed, key=_median_s, default=None)


def _median_s(measured: Measured) -> float:
    assert measured.timing is not None
    return measured.timing.median_s


@dataclass(frozen=True)
class DeviceState:
    """What the driver reports of a GPU: MHz, watts, degrees Celsius; None where it reports nothing."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


@dataclass(frozen=True)
class Environment:
    """Where and when a run was made.

    Args:
        date: ISO 8601 with time zone
        command: what was called
        device: the GPU's or the processor's name
        is_gpu: False for a CPU, where hand-written kernels run on the engine and no time is a GPU's
        driver: the GPU driver's version; may be empty
        versions: package → version, Python's too
        datasheet_gb_per_s: memory bandwidth of the datasheet; None for a device that is not known
        copy_gb_per_s: bytes read and written by a large copy, measured in the same run
        before, after: the device's state at both ends of the run
    """

    date: str
    command: str
    device: str
    is_gpu: bool
    driver: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    datasheet_gb_per_s: float | None = None
    copy_gb_per_s: float | None = None
    before: DeviceState = DeviceState()
    after: DeviceState = DeviceState()


@dataclass(frozen=True)
class BenchRun:
    """All cases of one run; `number` is its place in the store, None where it was not stored."""

    environment: Environment
    cases: Sequence[BenchCase]
    number: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One provider of one case in two runs.

    Args:
        ratio: median after over median before
        low, high: the 95% interval of the ratio, by resampling both runs' samples
        verdict: `faster`, `slower`, or `same` where the interval reaches into ±`SMALLEST` (bench.statistics)
    """

    operator: str
    shape: tuple[int, ...]
    dtype: str
    provider: str
    before_s: float
    after_s: float
    ratio: float
    low: float
    high: float
    verdict: Literal["faster", "slower", "same"]


@dataclass(frozen=True)
class BenchDiff:
    """Two stored runs against each other; `only_before` and `only_after` name what has no partner."""

    before: BenchRun
    after: BenchRun
    changes: tuple[Change, ...]
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
