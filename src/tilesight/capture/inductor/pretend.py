"""Make Dynamo and Inductor believe in a GPU that is not here, for the length of a `with` block.

Every private part of torch that this needs is touched here. Seen to work on torch 2.11.0, 2.13.0 and
2.14.1. Kernels are generated, never launched: no CUDA driver is asked for anything.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Generator
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton.backends.compiler import GPUTarget

from tilesight.capture.backend import active_driver, install_driver
from tilesight.capture.inductor.attention import attention_as_on
from tilesight.capture.inductor.autograd_device import autograd_on_pretended_cuda
from tilesight.capture.inductor.cuda_build import as_in_a_cuda_build
from tilesight.capture.inductor.target_device import ON_TARGET, fake_on
from tilesight.capture.lent.mode import lent_suspended
from tilesight.errors import UnsupportedError
from tilesight.targets import Target


def device_properties(target: Target) -> types.SimpleNamespace:
    """What `torch.cuda.get_device_properties` answers on the target."""
    return types.SimpleNamespace(
        name=target.device_name,
        major=int(target.arch) // 10,
        minor=int(target.arch) % 10,
        multi_processor_count=target.sms,
        regs_per_multiprocessor=target.registers_per_sm,
        max_threads_per_multi_processor=target.threads_per_sm,
        max_threads_per_block=target.threads_per_block,
        warp_size=target.warp_size,
        total_memory=target.memory_bytes,
        L2_cache_size=target.l2_bytes,
        shared_memory_per_block=target.shared_bytes_per_block,
        shared_memory_per_block_optin=target.shared_bytes_per_block_optin,
        shared_memory_per_multiprocessor=target.shared_bytes_per_sm,
        gcnArchName="",
        uuid="0",
        is_integrated=0,
        is_multi_gpu_board=0,
    )


class _GenerateOnlyDriver:
    """The driver Triton sees while code is generated for the target."""

    def __init__(self, target: Target) -> None:
        self._target = GPUTarget("cuda", int(target.arch), target.warp_size)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)


def _device_interface(target: Target, properties: Any) -> Any:
    """A Dynamo device interface that answers for the target."""
    interfaces: Any = import_module("torch._dynamo.device_interface")
    answers = _answers(target, properties)

    class Worker:
        set_device = staticmethod(lambda device: None)
        current_device = staticmethod(lambda: 0)
        get_device_properties = staticmethod(answers["get_device_properties"])

    methods: dict[str, Any] = {name: staticmethod(answer) for name, answer in answers.items()}
    methods |= {
        "Worker": Worker,
        "is_available": staticmethod(lambda: True),
        "is_triton_capable": staticmethod(lambda device=None: True),
        "raise_if_triton_unavailable": staticmethod(lambda device=None: None),
        "get_compute_capability": staticmethod(lambda device=None: int(target.arch)),
        "synchronize": staticmethod(lambda device=None: None),
        "get_raw_stream": staticmethod(lambda device: 0),
    }
    return type("TargetInterface", (interfaces.CudaInterface,), methods)


def _answers(target: Target, properties: Any) -> dict[str, Callable[..., Any]]:
    return {
        "get_device_properties": lambda device=None: properties,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "is_bf16_supported": lambda including_emulation=True: int(target.arch) >= 80,
    }


def _cuda_patches(target: Target, properties: Any) -> dict[str, Callable[..., Any]]:
    return _answers(target, properties) | {
        "_get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_name": lambda device=None: properties.name,
        "_lazy_init": lambda: None,
    }


@contextlib.contextmanager
def _interface_registered(interface: Any) -> Generator[None]:
    interfaces: Any = import_module("torch._dynamo.device_interface")
    interfaces.get_interface_for_device("cpu")  # fills the registry, which would otherwise undo the entry below
    before = dict(interfaces.device_interfaces)
    for name in ("cuda", "cuda:0"):
        interfaces.register_interface_for_device(name, interface)
    try:
        yield
    finally:
        interfaces.device_interfaces.clear()
        interfaces.device_interfaces.update(before)


@contextlib.contextmanager
def _fresh_property_caches() -> Generator[None]:
    """Inductor remembers the properties of device 0; forget them before and after."""
    caches = _device_caches()
    for cache in caches:
        cache.cache_clear()
    try:
        yield
    finally:
        for cache in caches:
            cache.cache_clear()


def _device_caches() -> list[Any]:
    hints: Any = import_module("torch._inductor.runtime.hints")
    utils: Any = import_module("torch._inductor.utils")
    scheduler: Any = import_module("torch._inductor.scheduler")
    candidates = [hints.DeviceProperties.create, *vars(utils).values(), *vars(scheduler).values()]
    return [c for c in candidates if callable(c) and hasattr(c, "cache_clear") and hasattr(c, "cache_info")]


@contextlib.contextmanager
def _folding_on_cpu(folder: Any) -> Generator[None]:
    """Constant folding makes one-element tensors on the device of the nodes: make them on the CPU."""
    deduce = folder._deduce_value

    def deduce_value(self: Any, node: Any) -> Any:
        args, kwargs = node.args, node.kwargs
        node.args = tuple(_cpu_for_cuda(value) for value in args)
        node.kwargs = {key: _cpu_for_cuda(value) for key, value in kwargs.items()}
        try:
            return deduce(self, node)
        finally:
            node.args, node.kwargs = args, kwargs

    with patch.object(folder, "_deduce_value", deduce_value), contextlib.ExitStack() as stack:
        if add := getattr(folder, "_add_peephole_patterns", None):
            stack.enter_context(patch.object(folder, "_add_peephole_patterns", _filling_on_cpu(add)))
        yield


def _filling_on_cpu(method: Callable[[Any], None]) -> Callable[[Any], None]:
    full: Any = torch.full

    def full_on_cpu(*args: Any, **kwargs: Any) -> Any:
        return full(*args, **{key: _cpu_for_cuda(value) for key, value in kwargs.items()})

    def run(self: Any) -> None:
        with patch.object(torch, "full", full_on_cpu):
            method(self)

    return run


def _cpu_for_cuda(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value


def _classes_that_trace() -> tuple[type, type]:
    fake: Any = import_module("torch._subclasses.fake_tensor")
    functional: Any = import_module("torch._subclasses.functional_tensor")
    return fake.FakeTensor, functional.FunctionalTensor


def _cuda_stays_here(self: Any, *_: Any, **__: Any) -> Any:
    """`x.cuda()` of a tensor that is on the pretended device already."""
    return self


def _to_with_index(self: Any, *args: Any, **kwargs: Any) -> Any:
    """`x.to("cuda")` with the index said: without one torch asks the guard, which knows none."""
    values = [_indexed(value) for value in args]
    return torch.Tensor.to(self, *values, **{key: _indexed(value) for key, value in kwargs.items()})


def _indexed(value: Any) -> Any:
    is_bare = value == "cuda" if isinstance(value, str) else isinstance(value, torch.device) and str(value) == "cuda"
    return torch.device("cuda", 0) if is_bare else value


def _fall_back_on_cpu(run: Callable[..., Any]) -> Callable[..., Any]:
    """For an operator without a meta kernel torch runs the real one, on zeros: on the CPU's memory, not a GPU's."""
    fake: Any = import_module("torch._subclasses.fake_tensor")
    map_leaves: Any = import_module("torch.utils._pytree").tree_map

    def run_fallback_kernel(mode: Any, function: Any, leaves: Any, structure: Any, error: Any) -> Any:
        moved = [_on_cpu(leaf) for leaf in leaves]
        places = {id(new): old for new, old in zip(moved, leaves, strict=True) if new is not old}
        if not places:
            return run(mode, function, leaves, structure, error)

        def back(result: Any) -> Any:
            if not isinstance(result, fake.FakeTensor):
                return result
            return places[id(result)] if id(result) in places else fake_on(result, ON_TARGET)

        return map_leaves(back, run(mode, function, moved, structure, error))

    def _on_cpu(leaf: Any) -> Any:
        is_there = isinstance(leaf, fake.FakeTensor) and leaf.fake_device.type == "cuda"
        return fake_on(leaf, torch.device("cpu")) if is_there else _cpu_for_cuda(leaf)

    return run_fallback_kernel


class _ConstantsOnCpu(TorchDispatchMode):
    """Computes on the CPU what names a CUDA device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        map_leaves: Any = import_module("torch.utils._pytree").tree_map
        return func(*map_leaves(_cpu_for_cuda, args), **map_leaves(_cpu_for_cuda, kwargs or {}))


def _with_constants_on_cpu(unset_fake: Callable[[], Any]) -> Callable[[], Any]:
    """Tracing keeps the value of `torch.tensor(1.0, device="cuda")` by making the real one: here it has no device."""

    @contextlib.contextmanager
    def unset_fake_temporarily() -> Generator[Any]:
        with unset_fake() as before, _ConstantsOnCpu():
            yield before

    return unset_fake_temporarily


@contextlib.contextmanager
def tracing_on_cuda() -> Generator[None]:
    """While it lasts, fake CUDA tensors can be computed with, forward and backward, in any build of torch."""
    with autograd_on_pretended_cuda(), contextlib.ExitStack() as stack:
        for tensor_class in _classes_that_trace():
            stack.enter_context(patch.object(tensor_class, "cuda", _cuda_stays_here, create=True))
            stack.enter_context(patch.object(tensor_class, "to", _to_with_index, create=True))
        fake: Any = import_module("torch._subclasses.fake_tensor")
        stack.enter_context(patch.object(fake, "run_fallback_kernel", _fall_back_on_cpu(fake.run_fallback_kernel)))
        proxies: Any = import_module("torch.fx.experimental.proxy_tensor")
        real_constants = _with_constants_on_cpu(proxies.unset_fake_temporarily)
        stack.enter_context(patch.object(proxies, "unset_fake_temporarily", real_constants))
        yield


@contextlib.contextmanager
def pretend(target: Target) -> Generator[None]:
    """Dynamo and Inductor see one `cuda:0` that is the target.

    Raises: UnsupportedError: when the target is not an NVIDIA one
    """
    if target.backend != "cuda":
        raise UnsupportedError(
            f"target {target.name} ({target.backend})",
            expected="an NVIDIA target",
            next_step="code generation for AMD targets is not supported yet",
        )
    properties = device_properties(target)
    joint_graph: Any = import_module("torch._inductor.fx_passes.joint_graph")
    lazy_init = joint_graph.lazy_init
    with contextlib.ExitStack() as stack:
        stack.enter_context(lent_suspended())
        stack.enter_context(_fresh_property_caches())
        stack.enter_context(_interface_registered(_device_interface(target, properties)))
        for name, answer in _cuda_patches(target, properties).items():
            stack.enter_context(patch.object(torch.cuda, name, answer, create=True))
        stack.enter_context(tracing_on_cuda())
        stack.enter_context(attention_as_on(target))
        stack.enter_context(as_in_a_cuda_build())
        stack.enter_context(_folding_on_cpu(joint_graph.UniformValueConstantFolder))
        stack.enter_context(patch.object(joint_graph, "lazy_init", lambda device=None: lazy_init(torch.device("cpu"))))
        previous = active_driver()
        install_driver(_GenerateOnlyDriver(target))
        stack.callback(install_driver, previous)
        yield
