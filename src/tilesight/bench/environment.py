"""What a run was made on: the device, its clocks, power and temperature, the versions, the date."""

from __future__ import annotations

import datetime
import platform
import subprocess
from dataclasses import replace
from importlib import metadata

import torch

from tilesight.bench.model import DeviceState, Environment
from tilesight.targets import target_of_device

PACKAGES = ("tilesight", "torch", "triton", "numpy", "liger-kernel", "flag-gems", "quack-kernels", "flash-attn")
QUERY = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "driver_version")


def environment_of(device: str, command: str) -> Environment:
    """Of `cuda` or `cpu`, now."""
    is_gpu = device == "cuda"
    name = torch.cuda.get_device_name() if is_gpu else platform.processor() or platform.machine()
    known = target_of_device(name) if is_gpu else None
    state, driver = read_state() if is_gpu else (DeviceState(), "")
    return Environment(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=command,
        device=name,
        is_gpu=is_gpu,
        driver=driver,
        versions={"python": platform.python_version(), **_versions()},
        datasheet_gb_per_s=known.hbm_gb_per_s if known else None,
        before=state,
    )


def with_state_after(environment: Environment) -> Environment:
    """The environment of a run that is over: with the device's state now."""
    return replace(environment, after=read_state()[0]) if environment.is_gpu else environment


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {**found, "torch": str(torch.version.__version__)}


def read_state() -> tuple[DeviceState, str]:
    """This process' first GPU's state and its driver's version, as `nvidia-smi` reports them; nothing without it."""
    identity = f"--id=GPU-{str(torch.cuda.get_device_properties(0).uuid).removeprefix('GPU-')}"
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits", identity]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return DeviceState(), ""
    fields = [field.strip() for field in answer.strip().splitlines()[0].split(",")]
    return DeviceState(*(_number(field) for field in fields[:4])), fields[4]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
