"""torch.cuda's streams and events where everything has happened by the time a call returns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import perf_counter
from typing import Any

from tilesight.capture.lent.marks import LENT_DEVICE


class CpuEvent:
    """An event of a device that is never behind: it happens when it is recorded.

    Args:
        enable_timing: as torch.cuda.Event's
        timed: called when a script reads a time, which is the CPU's
    """

    def __init__(self, enable_timing: bool = False, timed: Callable[[], None] = lambda: None, **_: Any) -> None:
        self.enable_timing = enable_timing
        self._timed = timed
        self._at_s: float | None = None

    def record(self, stream: Any = None) -> None:
        self._at_s = perf_counter()

    def elapsed_time(self, end_event: CpuEvent) -> float:
        """Milliseconds on the CPU's clock from this event to `end_event`.

        Raises: RuntimeError: when either was not recorded or keeps no time, as torch does
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._at_s is None or end_event._at_s is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        self._timed()
        return (end_event._at_s - self._at_s) * 1e3

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None:
        return None

    def synchronize(self) -> None:
        return None


class CpuStream:
    """A stream of a device that is never behind."""

    stream_id = 0
    cuda_stream = 0
    device = LENT_DEVICE
    device_index = LENT_DEVICE.index

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.priority = priority

    def record_event(self, event: CpuEvent | None = None) -> CpuEvent:
        event = event or CpuEvent()
        event.record()
        return event

    def wait_event(self, event: Any) -> None:
        return None

    def wait_stream(self, stream: Any) -> None:
        return None

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        return None

    def __enter__(self) -> CpuStream:
        return self

    def __exit__(self, *_: object) -> None:
        return None


DEFAULT_STREAM = CpuStream()


class NoChange(contextlib.AbstractContextManager[None]):
    """`with torch.cuda.device(0)` and the like, where there is one device and one stream."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __exit__(self, *_: object) -> None:
        return None
