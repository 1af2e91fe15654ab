"""Lend a script a `cuda` that is not here, for the length of a `with` block."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Generator
from importlib import import_module
from typing import Any

import torch

from tilesight.capture.inductor.autograd_device import autograd_on_pretended_cuda
from tilesight.capture.inductor.pretend import tracing_on_cuda
from tilesight.capture.lent.benchmark import benchmark_patches
from tilesight.capture.lent.cuda_module import accelerator_answers, cuda_answers, nvtx_answers
from tilesight.capture.lent.marks import Marks
from tilesight.capture.lent.mode import LentDeviceMode
from tilesight.capture.lent.patches import Patches
from tilesight.capture.lent.tensors import like_answers, move_answers, place_answers
from tilesight.capture.lent.torch_functions import (
    autocast_answers,
    literals_reach_the_mode,
    thread_answers,
    torch_answers,
)
from tilesight.targets import Target


class LentCuda:
    """A `cuda:0` whose tensors live on the CPU: what a script sees while it is lent.

    Tensors that the script puts there answer `cuda:0`, and so does what is computed from them; all
    others stay the CPU's. Moving between the two copies, as it does on a GPU. There is one clock,
    one stream and one random generator, the CPU's.

    Args:
        target: the GPU that torch.cuda answers for
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._said: set[str] = set()
        self._marks = Marks()
        self._mode = LentDeviceMode(self._marks, self._tell_first_use, self.suspended)
        self._calls = Patches()
        self._is_suspended = False
        self._resumable: list[Any] = []
        self._lent = contextlib.ExitStack()

    def __enter__(self) -> LentCuda:
        _let_dynamo_read_its_rules()
        self._calls = Patches(*self._answers())
        places = Patches((torch.Tensor, place_answers(self._marks)))
        with contextlib.ExitStack() as stack:
            for each in (_default_device_restored(), autograd_on_pretended_cuda(), literals_reach_the_mode()):
                stack.enter_context(each)
            for part in (places, self._calls, self._mode):
                stack.enter_context(part)
            self._lent = stack.pop_all()
        return self

    def _answers(self) -> list[tuple[Any, dict[str, Any]]]:
        """What a script may call, with what is there now behind it, such as a redirected torch.compile."""
        marks = self._marks
        return [
            (torch.cuda, cuda_answers(self.target, self.say)),
            (torch.cuda.nvtx, nvtx_answers()),
            (torch.accelerator, accelerator_answers()),
            (torch.Tensor, move_answers(marks, self._tell_first_use)),
            (torch, like_answers(marks) | torch_answers(marks, self.suspended)),
            (torch.autocast, autocast_answers()),
            (import_module("torch.backends.cudnn"), {"is_acceptable": lambda tensor: False}),
            (threading.Thread, thread_answers(self._mode)),
            (import_module("triton.testing"), benchmark_patches(self.say)),
        ]

    def __exit__(self, *_: object) -> None:
        self._lent.close()

    def say(self, text: str) -> None:
        """Tell the user on stderr, once a text."""
        if text not in self._said:
            self._said.add(text)
            print(f"tilesight: {text}", file=sys.stderr)

    def _tell_first_use(self) -> None:
        self.say(
            f'no GPU here: "cuda" is lent and answers as {self.target.device_name}; its tensors live on the CPU '
            "and Triton kernels run on the engine"
        )

    @contextlib.contextmanager
    def suspended(self) -> Generator[None]:
        """While it lasts torch is as it was, but for what tensors say of where they are: for torch's compiler."""
        modes: Any = import_module("torch.utils._python_dispatch")
        with self._calls.lifted(), modes._disable_current_modes() as found, tracing_on_cuda():
            self._is_suspended = True
            self._resumable = [mode for mode in reversed(found) if _watches_compiled_code(mode) or mode is self._mode]
            try:
                yield
            finally:
                self._is_suspended = False

    @contextlib.contextmanager
    def resumed(self) -> Generator[None]:
        """While it lasts the device is lent again, where it was suspended: for the code that was compiled."""
        if not self._is_suspended:
            yield
            return
        self._is_suspended = False
        try:
            with self._calls, contextlib.ExitStack() as stack:
                for mode in self._resumable:
                    stack.enter_context(mode)
                yield
        finally:
            self._is_suspended = True


def lend_missing_gpu(target: Target) -> LentCuda | None:
    """A `cuda` that answers as the target, to be entered; None where this machine has one, or one is lent."""
    return None if torch.cuda.is_available() else LentCuda(target)


def _watches_compiled_code(mode: Any) -> bool:
    """Whether a dispatch mode wants the calls of compiled code, and none that its compilation makes."""
    return mode.ignore_compile_internals()


def _let_dynamo_read_its_rules() -> None:
    """Dynamo looks up torch's functions by name, once: it must find torch's own, not the lent ones."""
    import_module("torch._dynamo.trace_rules").get_torch_obj_rule_map()


@contextlib.contextmanager
def _default_device_restored() -> Generator[None]:
    """A script's `torch.set_default_device("cuda")` ends with the script."""
    try:
        yield
    finally:
        torch.set_default_device(None)
