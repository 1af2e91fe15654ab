"""@triton.autotune on the engine: the first configuration that is left after pruning, nothing is timed.

Seen on Triton 3.6, 3.7.1 and 3.8: `Autotuner.do_bench` is what times a configuration, whether the
driver, the decorator's `do_bench` or its older `warmup` and `rep` gave it.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from typing import Any
from unittest import mock

from triton.runtime.autotuner import Autotuner

from tilesight.capture.backend import EngineDriver, active_driver
from tilesight.engine.launch import Autotuning

_CURRENT: ContextVar[Autotuning | None] = ContextVar("autotuning", default=None)

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

    run: Any = vars(Autotuner)["run"]

    def run_known(autotuner: Any, *arguments: Any, **keywords: Any) -> Any:
        token = _CURRENT.set(_autotuning_of(autotuner))
        try:
            return run(autotuner, *arguments, **keywords)
        finally:
            _CURRENT.reset(token)

    with (
        mock.patch.object(Autotuner, "do_bench", property(do_bench)),
        mock.patch.object(Autotuner, "run", run_known),
    ):
        yield


def current_autotuning() -> Autotuning | None:
    """How the kernel that is being launched would be tuned; None when no autotuner launches it."""
    return _CURRENT.get()


def _autotuning_of(autotuner: Any) -> Autotuning:
    plain = inspect.unwrap(getattr(autotuner.base_fn, "fn", autotuner.base_fn))
    return Autotuning(
        configs=len(autotuner.configs),
        restored=(*autotuner.reset_to_zero, *autotuner.restore_value),
        has_hook=autotuner.user_defined_pre_hook or any(config.pre_hook for config in autotuner.configs),
        declared_at=f"{plain.__code__.co_filename}:{plain.__code__.co_firstlineno}",
    )
