"""The code that torch.compile generates for one sample: without a GPU, or on the one that is here."""

from __future__ import annotations

import contextlib
import inspect
import time
import traceback
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any
from unittest.mock import patch

from tests.gpu.functions.sample import Sample


@dataclass(frozen=True)
class Outcome:
    """What became of one sample.

    Args:
        forward, backward: the generated code of each graph, scrubbed; a graph's backward has its position
        choices: for each choice that a GPU's clock makes, what it is made between, in order of names
        error: why there is no code
    """

    forward: list[str] = field(default_factory=list[str])
    backward: list[str] = field(default_factory=list[str])
    choices: list[list[str]] = field(default_factory=list[list[str]])
    error: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Outcome:
        return cls(**value)


def compile_sample(sample: Sample, side: str) -> Outcome:
    """The sample compiled for the H200 ("offline") or on the GPU that is here ("device"); never raises."""
    started = time.perf_counter()
    try:
        codes, choices = _offline(sample) if side == "offline" else _on_device(sample)
    except Exception as error:
        traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(error=f"{type(error).__name__} at {where.filename}:{where.lineno}: {str(error)[:600]}")
    scrub = import_module("tilesight.capture.inductor.scrub").scrub
    forward = [scrub(code) for is_backward, code in codes if not is_backward]
    backward = [scrub(code) for is_backward, code in codes if is_backward]
    return Outcome(forward, backward, choices, seconds=time.perf_counter() - started)


def _offline(sample: Sample) -> tuple[list[tuple[bool, str]], list[list[str]]]:
    """As `tilesight observe` compiles it."""
    on_engine: Any = import_module("tilesight.capture.inductor.on_engine")
    targets: Any = import_module("tilesight.targets")
    graph = on_engine.capture(
        _subject(sample, "meta"),
        sample.inputs,
        targets.target("h200"),
        mode=sample.mode,
        dynamic=sample.dynamic,
        backward=sample.backward,
    )
    codes = [(region.graph == "backward", region.code) for region in graph.regions if region.code]
    return codes, [_words(each.choices) for region in graph.regions for each in region.undecided]


def _words(choices: Any) -> list[str]:
    return sorted(f"{choice.name} {choice.description}".strip() for choice in choices)


def _on_device(sample: Sample) -> tuple[list[tuple[bool, str]], list[list[str]]]:
    """As a user's program compiles it: called once, and differentiated once."""
    torch: Any = import_module("torch")
    torch._dynamo.reset()
    function = _subject(sample, "cuda")
    inputs = _real_inputs(sample)
    with _code_heard() as codes, _choices_heard() as choices, torch.set_grad_enabled(sample.backward):
        result = torch.compile(function, mode=sample.mode, dynamic=sample.dynamic)(*inputs)
        if sample.backward:
            _loss(result).backward()
            codes = [*(c for c in codes if not c[0]), *reversed([c for c in codes if c[0]])]
    torch.cuda.synchronize()
    return codes, choices


def _subject(sample: Sample, device: str) -> Any:
    """The function, or the module built on the device with the dtype of its first floating input."""
    torch: Any = import_module("torch")
    if not isinstance(sample.function, type):
        return sample.function
    with torch.device(device):
        module = sample.function()
    dtype = next(spec.dtype for spec in sample.inputs if spec.dtype.is_floating_point)
    module.to(dtype).train(sample.backward)
    return module if sample.backward else module.requires_grad_(False)


def _real_inputs(sample: Sample) -> list[Any]:
    return [_real_input(spec, sample) if hasattr(spec, "dtype") else spec for spec in sample.inputs]


def _real_input(spec: Any, sample: Sample) -> Any:
    torch: Any = import_module("torch")
    strides = spec.strides or torch.empty(spec.shape, device="meta").stride()
    made = torch.empty_strided(spec.shape, strides, dtype=spec.dtype, device="cuda")
    if spec.dtype.is_floating_point:
        made.copy_(torch.randn(spec.shape, device="cuda"))
    else:
        made.copy_(torch.randint(0, spec.limit or 2, spec.shape, device="cuda"))
    return made.requires_grad_(sample.backward and spec.dtype.is_floating_point)


def _loss(result: Any) -> Any:
    torch: Any = import_module("torch")
    leaves = import_module("torch.utils._pytree").tree_leaves(result)
    return sum(leaf.float().sum() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad)


@contextlib.contextmanager
def _code_heard() -> Generator[list[tuple[bool, str]]]:
    """Each graph's generated code as Inductor saves it, and whether it is a backward graph's."""
    lowering: Any = import_module("torch._inductor.graph").GraphLowering
    codes: list[tuple[bool, str]] = []
    compile_to_module = lowering.compile_to_module

    def compile_and_tell(self: Any) -> Any:
        with patch.object(
            lowering, "save_output_code", staticmethod(lambda code: codes.append((self.is_backward, code)))
        ):
            return compile_to_module(self)

    with patch.object(lowering, "compile_to_module", compile_and_tell):
        yield codes


@contextlib.contextmanager
def _choices_heard() -> Generator[list[list[str]]]:
    """What Inductor times against each other, each choice once."""
    selector: Any = import_module("torch._inductor.select_algorithm").AlgorithmSelectorCache
    choice_of = import_module("tilesight.capture.inductor.choices").choice_of
    heard: list[list[str]] = []
    do_autotuning = selector.do_autotuning
    signature = inspect.signature(do_autotuning)

    def autotune_and_tell(*args: Any, **kwargs: Any) -> Any:
        choices = _words([choice_of(each) for each in signature.bind(*args, **kwargs).arguments["choices"]])
        if choices not in heard:
            heard.append(choices)
        return do_autotuning(*args, **kwargs)

    pad_mm: Any = import_module("torch._inductor.fx_passes.pad_mm")
    padding = _words(import_module("tilesight.capture.inductor.choices").AS_IT_IS_OR_PADDED)
    look_up = pad_mm.get_cached_should_pad

    def look_up_and_tell(key: Any) -> Any:
        heard.extend([padding] if padding not in heard else [])
        return look_up(key)

    with (
        patch.object(selector, "do_autotuning", autotune_and_tell),
        patch.object(pad_mm, "get_cached_should_pad", look_up_and_tell),
    ):
        yield heard
