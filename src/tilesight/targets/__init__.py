"""What is known of each GPU that kernels are compiled and predicted for."""

from __future__ import annotations

from tilesight.errors import InputError
from tilesight.targets.amd import MI300X
from tilesight.targets.model import PeakTflops, Target
from tilesight.targets.nvidia import A100, B200, H100, H200, L40S, RTX4090

__all__ = ["PeakTflops", "Target", "target", "target_names", "target_of_device"]

_TARGETS = {each.name: each for each in (H200, H100, B200, A100, L40S, RTX4090, MI300X)}


def target_names() -> tuple[str, ...]:
    """The names that `target` takes."""
    return tuple(_TARGETS)


def target_of_device(device_name: str) -> Target | None:
    """The GPU whose driver reports this name; None for one that is not known."""
    return next((each for each in _TARGETS.values() if each.device_name == device_name), None)


def target(name: str) -> Target:
    """The GPU called `name`; case, blanks, hyphens and underscores do not matter.

    Raises: InputError: when no GPU has that name
    """
    key = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    if key not in _TARGETS:
        raise InputError(
            f"unknown target {name!r}",
            where="--target",
            expected=f"one of {', '.join(_TARGETS)}",
        )
    return _TARGETS[key]
