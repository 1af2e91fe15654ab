"""Generated kernels brought to life: their JIT functions, their configs, their grids.

Inductor's decorators (`triton_heuristics.pointwise`, …) choose the configs a GPU would time; the first
is taken, since nothing is timed here. Seen on torch 2.11.0 to 2.14.1.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module, util
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tilesight.capture.inductor.cpp_kernels import CATEGORY as CPP
from tilesight.capture.inductor.graph import Call, GeneratedKernel
from tilesight.capture.inductor.sizes import parse_optional_size
from tilesight.errors import CaptureError

_SET_DRIVER = "triton_helpers.set_driver_to_gpu()"


@dataclass(frozen=True)
class LoadedKernel:
    """A generated kernel as Python objects.

    Args:
        function: its @triton.jit function
        parameters: its parameter names in order
        configs: block sizes, num_warps and num_stages of each config, the one to use first
        metadata: Inductor's `inductor_meta`
        constants: values of parameters that the wrapper does not pass: a user's own kernel's constexprs
    """

    name: str
    function: Any
    parameters: tuple[str, ...]
    configs: tuple[dict[str, object], ...]
    metadata: dict[str, Any]
    constants: dict[str, Any]

    def grid(self, arguments: Sequence[Any]) -> tuple[int, ...]:
        """The grid of a launch with the first config; sizes are read from the arguments."""
        heuristics: Any = import_module("torch._inductor.runtime.triton_heuristics")
        config = self.configs[0]
        numels = self.passed(arguments)
        sizes = {k: v for k, v in numels.items() if isinstance(v, int)}
        grid = heuristics.GridExpr.from_meta(self.metadata, config, mode="python")
        return tuple(int(extent) for extent in grid.eval_slow({**sizes, **config}))

    def passed(self, arguments: Sequence[Any]) -> dict[str, Any]:
        """The wrapper's arguments by name; the grid of a user's own kernel stands behind its parameters."""
        grid = tuple(self.metadata.get("extra_launcher_args", ()))
        names = [name for name in self.parameters if name not in self.configs[0]]
        if len(arguments) < len(names) + len(grid):
            names = [name for name in names if name not in self.constants]
        return dict(zip((*names, *grid), arguments, strict=False))

    def run(self, *arguments: Any, stream: int = 0, **_: Any) -> None:
        """Launch with the first config on whatever driver Triton has, as Inductor's wrapper does."""
        options = dict(self.configs[0])
        options["debug"] = bool(self.metadata.get("assert_indirect_indexing", True))
        passed = {name: value for name, value in self.passed(arguments).items() if name in self.parameters}
        self.function[self.grid(arguments)](**{**self.constants, **passed, **options})


@lru_cache(maxsize=256)
def load_kernel(name: str, source: str) -> LoadedKernel:
    """The kernel in `source`, imported once, from a file so that Triton can read its text.

    Raises: CaptureError: when the source does not define an Inductor kernel of that name
    """
    text = source.strip("\n").replace(_SET_DRIVER, "") + "\n"
    module = _import_file(_source_file(name, text))
    tuner = next((found for found in vars(module).values() if _is_tuner(found)), None)
    if tuner is None:
        raise CaptureError(f"the generated source defines no kernel {name}", next_step="report the torch version")
    return LoadedKernel(
        name=name,
        function=tuner.fn,
        parameters=tuple(tuner.fn.arg_names),
        configs=tuple(_config(config) for config in tuner.configs),
        metadata=dict(tuner.inductor_meta),
        constants=dict(tuner.triton_meta.get("constants", {})),
    )


def _is_tuner(value: Any) -> bool:
    """Whether it is what Inductor's decorators make of a kernel; a wrapper may call it by another name."""
    return hasattr(value, "configs") and hasattr(value, "inductor_meta") and hasattr(value, "fn")


def _config(config: Any) -> dict[str, object]:
    return {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}


def _source_file(name: str, text: str) -> Path:
    folder = Path(tempfile.gettempdir()) / f"tilesight-{os.getuid()}" / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name[:80]}_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    return path


def _import_file(path: Path) -> Any:
    spec = util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CaptureError(f"cannot import {path}")
    module = util.module_from_spec(spec)
    with _no_remembered_timings():
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _no_remembered_timings() -> Generator[None]:
    """Inductor's decorators give the configs that its heuristics choose, not the one that was the fastest before here.

    To ask what this machine remembers they would hash all of torch's sources too, which takes longer than all else.
    """
    remembered: Any = import_module("torch._inductor.runtime.autotune_cache").AutotuneCache
    with patch.object(remembered, "create", lambda *_, **__: None):
        yield


def with_configs(kernels: Sequence[GeneratedKernel]) -> tuple[GeneratedKernel, ...]:
    """The same kernels with the configs that Inductor's heuristics give them; C++ kernels have none."""
    return tuple(
        kernel if kernel.category == CPP else replace(kernel, configs=load_kernel(kernel.name, kernel.source).configs)
        for kernel in kernels
    )


def with_grids(
    calls: Sequence[Call], kernels: Sequence[GeneratedKernel], known_sizes: Mapping[str, int]
) -> tuple[Call, ...]:
    """The same calls; Triton launches gain the grid and the config that the first config gives."""
    sources = {kernel.name: kernel.source for kernel in kernels}
    return tuple(_with_grid(call, sources[call.kernel], known_sizes) if call.is_triton else call for call in calls)


def _with_grid(call: Call, source: str, known_sizes: Mapping[str, int]) -> Call:
    loaded = load_kernel(call.kernel, source)
    arguments = [_argument(text, known_sizes) for text in call.arguments]
    passed = loaded.passed(arguments)
    sizes = [
        name for name in passed if name.endswith("numel") or name in loaded.metadata.get("extra_launcher_args", ())
    ]
    if not all(isinstance(passed[name], int) for name in sizes):
        return replace(call, config=loaded.configs[0])
    return replace(call, grid=loaded.grid(arguments), config=loaded.configs[0])


def _argument(text: str, known_sizes: Mapping[str, int]) -> int | str:
    """The size that an argument is, else its text."""
    size = parse_optional_size(ast.parse(text, mode="eval").body, known_sizes)
    return text if size is None else size
