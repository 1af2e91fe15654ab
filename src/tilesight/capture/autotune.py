"""@triton.autotune on the engine: the first configuration that is left after pruning, nothing is timed.

Seen on Triton 3.6, 3.7.1 and 3.8: `Autotuner.do_bench` is what times a configuration, whether the
driver, the decorator's `do_bench` or its older `warmup` and `rep` gave it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any
from unittest import mock

from triton.runtime.autotuner import Autotuner

from tilesight.capture.backend import EngineDriver, active_driver

Benchmarker = Callable[..., Sequence[float]]


@contextlib.contextmanager
def first_config_is_taken() -> Generator[None]:
    """While an engine's driver is active every configuration counts as equally fast and none is run.

    Running one would write to the kernel's tensors once more than the user asked for.
    """
    original: Any = vars(Autotuner)["do_bench"]

    def do_bench(autotuner: Any) -> Benchmarker:
        driver = active_driver()
        if isinstance(driver, EngineDriver):
            return driver.get_benchmarker()
        return original.__get__(autotuner, type(autotuner))

    with mock.patch.object(Autotuner, "do_bench", property(do_bench)):
        yield
