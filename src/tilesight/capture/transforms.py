"""Who else sees or changes what torch's operators do: torch.func, modes, a profiler, autocast (torch 2.11 to 2.14)."""

from __future__ import annotations

from typing import Any

import torch

_C: Any = torch._C


def is_transformed() -> bool:
    """Whether a `torch.func` transformation is under way: vmap, grad, vjp, jvp, jacrev, hessian, functionalize."""
    return _C._functorch.peek_interpreter_stack() is not None


def is_observed() -> bool:
    """Whether somebody looks at, records or changes what torch's operators do."""
    return bool(
        is_transformed()
        or _C._len_torch_dispatch_stack()
        or _C._len_torch_function_stack()
        or _C._get_tracing_state()
        or _C._autograd._profiler_enabled()
        or _C._is_any_autocast_enabled()
    )
