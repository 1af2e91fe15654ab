"""A graph that was traced on CPU tensors, moved to the pretended `cuda:0`.

A script without a GPU keeps its tensors on the CPU; what Dynamo took from it says so in every device it
names. Seen to work on torch 2.11.0, 2.13.0 and 2.14.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch

ON_TARGET = torch.device("cuda", 0)
_AUTOCAST = frozenset({"_enter_autocast", "autocast"})


def move_graph(graph_module: Any) -> None:
    """Rewrite every device in a Dynamo graph and its nested graphs, in place, to `cuda:0`."""
    for module in graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                _move_node(node)
            module.recompile()


def _move_node(node: Any) -> None:
    names_devices = node.op == "call_method" and node.target == "to"
    names_devices = names_devices or getattr(node.target, "__name__", "") in _AUTOCAST
    map_leaves: Any = import_module("torch.fx.node").map_aggregate
    node.args = map_leaves(node.args, lambda leaf: _moved(leaf, is_named=names_devices))
    node.kwargs = {key: _moved(value, is_named=names_devices or key == "device") for key, value in node.kwargs.items()}
    if node.op == "call_method" and node.target == "cpu":
        node.target, node.args = "to", (node.args[0], ON_TARGET)
    if node.op == "call_function" and node.target in _constructors() and node.kwargs.get("device") is None:
        node.kwargs = {**node.kwargs, "device": ON_TARGET}


def _moved(value: Any, *, is_named: bool) -> Any:
    """The target's device for a device; text counts as one only where a device is meant."""
    if isinstance(value, torch.device):
        return ON_TARGET if value.type in ("cpu", "cuda") else value
    if not is_named or not isinstance(value, str):
        return value
    if value in ("cpu", "cuda"):
        return "cuda" if value == "cuda" else ON_TARGET.type
    return str(ON_TARGET) if value.startswith(("cpu:", "cuda:")) else value


def _constructors() -> frozenset[Any]:
    """Functions that make a tensor on the default device."""
    return frozenset(import_module("torch.utils._device")._device_constructors())


def move_inputs(inputs: Sequence[Any]) -> list[Any]:
    """A Dynamo graph's CPU inputs as fake tensors on `cuda:0`, in the fake mode that Dynamo traced with.

    They have Dynamo's symbolic sizes, and tensors that share memory go on sharing it: AOT autograd asks
    when one of them is written. What is no plain tensor stays.
    """
    guards: Any = import_module("torch._guards")
    return [_move_input(guards.TracingContext.get(), value) for value in inputs]


def _move_input(context: Any, value: Any) -> Any:
    fake: Any = import_module("torch._subclasses.fake_tensor")
    if isinstance(value, torch.Tensor) and type(value) in (torch.Tensor, torch.nn.Parameter):
        symbolic = context.tensor_to_context.get(value)
        source = getattr(symbolic, "tensor_source", None)
        value = context.fake_mode.from_tensor(value, symbolic_context=symbolic, source=source)
    if not isinstance(value, fake.FakeTensor) or value.device.type != "cpu":
        return value
    moved = fake_on(value, ON_TARGET).requires_grad_(value.requires_grad)
    if value.is_leaf:
        return moved
    with torch.enable_grad(), context.fake_mode:
        return moved.view_as(moved)


def fake_on(tensor: Any, device: torch.device) -> Any:
    """A fake tensor of the same memory and mode that says it is on another device."""
    fake: Any = import_module("torch._subclasses.fake_tensor")
    meta = torch.empty(0, dtype=tensor.dtype, device="meta")
    with torch.no_grad():
        meta.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())
    return fake.FakeTensor(tensor.fake_mode, meta, device)
