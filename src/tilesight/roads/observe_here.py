"""The compiled road of the real compilation, on the processor or the GPU that is here."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from tilesight.capture.eager import record_eager
from tilesight.capture.inductor.here import compile_here
from tilesight.capture.inductor.on_engine import ask_gradients, with_launches
from tilesight.capture.inputs import fake_mode, real_inputs
from tilesight.errors import InputError
from tilesight.roads.describe import describe_graph
from tilesight.roads.model import Observation
from tilesight.roads.region_ledger import EagerRecord
from tilesight.targets import target_of_device

HERE = ("cpu", "gpu")
"""Targets that are not names of GPUs: what is in this machine."""


def observe_here(
    subject: Callable[..., Any],
    specs: Sequence[Any],
    where: str,
    name: str,
    *,
    mode: str | None,
    dynamic: bool | None,
    backward: bool,
) -> Observation:
    """What torch.compile really does on this machine: kernels are compiled and run, caches are asked.

    Args:
        subject: a function, an nn.Module class or an instance with real weights
        specs: TensorSpecs and plain values, of which real random inputs are made
        where: `cpu` or `gpu`
    Raises: InputError: when there is no such device, or the module has no weights
    """
    device = _device(where)
    function = _on_device(subject, device, is_trained=backward)
    inputs = [each.to(device) if isinstance(each, torch.Tensor) else each for each in real_inputs(specs)]
    if backward:
        ask_gradients(inputs)
    graph, notes = compile_here(function, inputs, mode=mode, dynamic=dynamic, backward=backward)
    graph = replace(graph, regions=tuple(with_launches(region) for region in graph.regions))
    known = target_of_device(torch.cuda.get_device_name()) if where == "gpu" else None
    seen = describe_graph(
        graph,
        subject=name,
        inputs=tuple(str(spec) for spec in specs),
        target=known,
        eager=None if graph.failure else _eager(function, inputs, backward=backward),
        notes=(*notes, "compiled and run here; requested bytes are counted on the engine only"),
    )
    return seen if known else replace(seen, target="cpu" if where == "cpu" else torch.cuda.get_device_name())


def _device(where: str) -> torch.device:
    if where == "gpu" and not torch.cuda.is_available():
        raise InputError("no GPU is here", where="--target gpu", expected="the name of one that need not be here")
    return torch.device("cuda" if where == "gpu" else "cpu")


def _on_device(subject: Callable[..., Any], device: torch.device, *, is_trained: bool) -> Callable[..., Any]:
    """The function, or a copy of the module there, its weights real."""
    if isinstance(subject, type) and issubclass(subject, torch.nn.Module):
        subject = subject()
    if not isinstance(subject, torch.nn.Module):
        return subject
    if any(each.is_meta for each in (*subject.parameters(), *subject.buffers())):
        raise InputError("the module has no weights", expected="real ones: it is compiled and run here")
    return copy.deepcopy(subject).to(device).train(is_trained)


def _eager(function: Callable[..., Any], inputs: Sequence[Any], *, backward: bool) -> EagerRecord:
    """What eager mode launches on these inputs' device, recorded without computing it."""
    mode = fake_mode()
    fakes = [mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in inputs]
    if isinstance(function, torch.nn.Module):
        weights = (*function.parameters(), *function.buffers())
        function = copy.deepcopy(function, {id(each): mode.from_tensor(each) for each in weights})
    with mode:
        return record_eager(function, fakes, backward=backward)
