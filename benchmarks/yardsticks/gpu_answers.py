"""What libraries ask of a GPU before they launch, answered with an H200's figures while the engine is the device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
import triton
from torch.overrides import TorchFunctionMode

from tilesight.capture.inductor.pretend import device_properties
from tilesight.targets import target

H200 = target("h200")
PROPERTIES = device_properties(H200)
IS_CUDA: dict[Any, Any] = {vars(torch._C.TensorBase)["is_cuda"].__get__: True}
DEVICE: dict[Any, Any] = {
    vars(torch._C.TensorBase)["device"].__get__: torch.device("cuda", 0),
    torch.Tensor.get_device: 0,
}
DRIVER_PROPERTIES = {
    "max_shared_mem": H200.shared_bytes_per_block_optin,
    "max_num_regs": H200.registers_per_sm,
    "multiprocessor_count": H200.sms,
    "warpSize": H200.warp_size,
}


class CpuPassesForCuda(TorchFunctionMode):
    """CPU tensors say that they are CUDA tensors, and tensors asked for there are made on the CPU.

    Args:
        says_device: `tensor.device` is `cuda:0` too; launchers that only ask `is_cuda` may then take
            torch functions that a CPU has not
    """

    def __init__(self, says_device: bool) -> None:
        super().__init__()
        self.answers = IS_CUDA | DEVICE if says_device else IS_CUDA

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in self.answers:
            return self.answers[func]
        return func(*map(_on_the_cpu, args), **{name: _on_the_cpu(each) for name, each in (kwargs or {}).items()})


def _on_the_cpu(value: Any) -> Any:
    is_cuda = isinstance(value, torch.device | str) and str(value).startswith("cuda")
    return torch.device("cpu") if is_cuda else value


@contextlib.contextmanager
def gpu_is_answered_for(says_device: bool = True) -> Generator[None]:
    """torch.cuda's and Triton's queries give an H200's figures and CPU tensors pass for CUDA tensors."""
    answers: dict[str, Any] = {
        "get_device_properties": lambda device=None: PROPERTIES,
        "get_device_capability": lambda device=None: (PROPERTIES.major, PROPERTIES.minor),
        "get_device_name": lambda device=None: PROPERTIES.name,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "synchronize": lambda device=None: None,
        "device": lambda device=None: contextlib.nullcontext(),
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        driver: Any = triton.runtime.driver.active
        stack.enter_context(
            mock.patch.object(driver.utils, "get_device_properties", lambda device=None: DRIVER_PROPERTIES)
        )
        stack.enter_context(CpuPassesForCuda(says_device))
        yield
