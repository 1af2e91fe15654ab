"""Inductor as the last step of a back end of ours: the graph compiled for good, on the device where its tensors are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch


def compile_by_inductor(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], mode: str | None = None
) -> Callable[..., Any]:
    """What `torch.compile` itself would call for Dynamo's graph, gradients included.

    Seen to work on torch 2.11, 2.13 and 2.14.1.

    Args: mode: of `torch.compile`, such as `max-autotune-no-cudagraphs`; None: the default
    """
    compile_fx: Any = import_module("torch._inductor.compile_fx")
    options = torch._inductor.list_mode_options(mode) if mode else None
    return compile_fx.compile_fx(graph_module, list(example_inputs), config_patches=options)
