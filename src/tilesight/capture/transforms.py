"""Whether torch.func transforms the function that runs (torch 2.11 to 2.14)."""

from __future__ import annotations

import torch


def is_transformed() -> bool:
    """Whether a `torch.func` transformation is under way: vmap, grad, vjp, jvp, jacrev, hessian, functionalize."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]
