"""Numbers on the GPU for the hand-written library's tests."""

from __future__ import annotations

import torch

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"

DEVICE = "cuda"
DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def draw(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Normal numbers of the dtype, the same at every call."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randn(shape, generator=generator, device=DEVICE, dtype=torch.float32).to(dtype)


def draw_integers(shape: tuple[int, ...], end: int, seed: int = 3) -> torch.Tensor:
    """int64 from 0 up to `end`."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randint(end, shape, generator=generator, device=DEVICE)
