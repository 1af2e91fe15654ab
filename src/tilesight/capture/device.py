"""Is there a GPU here, and which."""

from __future__ import annotations

import torch


def gpu_name() -> str:
    """The name of the GPU that torch would use; empty where there is none."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""
