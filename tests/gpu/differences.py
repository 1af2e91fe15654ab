"""How far the engine is from a GPU, and where it is written down."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch

DIGITS = {
    torch.float64: 52,
    torch.float32: 23,
    torch.float16: 10,
    torch.bfloat16: 7,
    torch.float8_e4m3fn: 3,
    torch.float8_e5m2: 2,
}


def worst_ulps(engine: torch.Tensor, gpu: torch.Tensor) -> float:
    """Largest difference in units of the larger value's last place; infinite where only one is NaN or infinite.

    Integers: the largest difference itself.
    """
    there = gpu.cpu()
    if not engine.dtype.is_floating_point:
        return float((_plain(engine) != _plain(there)).any())
    a, b = engine.double(), there.double()
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    a, b = a[~same], b[~same]
    if not bool((a.isfinite() & b.isfinite()).all()):
        return float("inf")
    smallest = torch.finfo(engine.dtype).tiny
    scale = 2.0 ** torch.floor(torch.log2(torch.maximum(a.abs(), b.abs()).clamp_min(smallest)))
    return float(((a - b).abs() / scale).max() * 2.0 ** DIGITS[engine.dtype])


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Unsigned tensors as bytes: torch compares few of them."""
    return tensor.contiguous().view(torch.uint8)


def record_difference(group: str, name: str, ulps: float) -> None:
    """Append a line to a file of this process in the folder that ENGINE_VS_GPU names, when it is set."""
    folder = os.environ.get("ENGINE_VS_GPU")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        line = json.dumps({"group": group, "name": name, "worst_ulps": ulps})
        with Path(folder, f"{os.getpid()}.jsonl").open("a") as file:
            file.write(line + "\n")
