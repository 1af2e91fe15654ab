"""Launches of @triton.jit functions: caught, executed on the engine, shown to whoever listens."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch

from tilesight.capture.backend import EngineDriver, active_driver, install_driver, register_backend
from tilesight.capture.tensors import memory_of
from tilesight.engine import Execution, ExecutionOptions, execute
from tilesight.engine.launch import Argument, ArgumentValue, Launch
from tilesight.engine.listener import Listener
from tilesight.errors import UnsupportedError
from tilesight.ir import Module, parse_module

OWN_PACKAGES = (str(Path(__file__).parents[1]), str(Path(str(sys.modules["triton"].__file__)).parent))


class LaunchObserver(Protocol):
    """Whoever wants to hear the launches of a session."""

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        """Return the listeners for this launch."""
        ...

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        """The launch is over; `listeners` are those that `launch_begins` returned."""
        ...


class EngineSession:
    """Triton running on the engine: installs the driver, executes launches, tells observers.

    Args:
        arch: compute capability the front end specialises for
        options: the engine's options
        is_pinned: a script's own `tilesight.disable()` leaves this session installed
    """

    def __init__(self, arch: int = 90, options: ExecutionOptions | None = None, *, is_pinned: bool = False) -> None:
        self.options = options or ExecutionOptions()
        self.observers: list[LaunchObserver] = []
        self.is_pinned = is_pinned
        self._driver = EngineDriver(self._run_kernel, arch, self)
        self._previous: Any = None
        self._modules: dict[str, Module] = {}
        self.is_installed = False
        self._redirections = contextlib.ExitStack()
        self._has_redirection = False

    def install(self) -> None:
        """Make Triton launch through this session."""
        register_backend()
        self._previous = active_driver()
        install_driver(self._driver)
        self.is_installed = True

    def uninstall(self) -> None:
        """Put back the driver that was there before."""
        self._redirections.close()
        self._has_redirection = False
        install_driver(self._previous)
        self.is_installed = False

    def redirect_compile(self, redirection: contextlib.AbstractContextManager[object]) -> None:
        """Enter a redirection of torch.compile, once, to leave it when the session is uninstalled."""
        if not self._has_redirection:
            self._redirections.enter_context(redirection)
            self._has_redirection = True

    def __enter__(self) -> EngineSession:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()

    def module(self, ttir: str) -> Module:
        """The parsed module of a TTIR text, parsed once."""
        if ttir not in self._modules:
            self._modules[ttir] = parse_module(ttir)
        return self._modules[ttir]

    def _run_kernel(
        self, source: Any, metadata: Any, ttir: str, grid: tuple[int, int, int], arguments: tuple[Any, ...]
    ) -> None:
        launch = build_launch(source, metadata, ttir, grid, arguments, names=_names_of_tensors())
        heard = [(observer, tuple(observer.launch_begins(launch))) for observer in self.observers]
        listeners = [listener for _, mine in heard for listener in mine]
        execution = execute(self.module(ttir), launch, listeners, self.options)
        for observer, mine in heard:
            observer.launch_ends(launch, execution, mine)


def installed_session() -> EngineSession | None:
    """The session that Triton launches through at present; None when there is none."""
    session = getattr(active_driver(), "session", None)
    return session if isinstance(session, EngineSession) else None


def build_launch(
    source: Any,
    metadata: Any,
    ttir: str,
    grid: tuple[int, int, int],
    arguments: tuple[Any, ...],
    names: dict[int, str] | None = None,
) -> Launch:
    """A Launch from what Triton hands to a driver.

    Args:
        source: Triton's ASTSource (its `fn` and `signature`)
        metadata: the compiled kernel's metadata (num_warps, num_stages, name)
        arguments: every argument the kernel was called with, constexprs included
        names: the caller's variable names by id() of the tensor
    """
    kept: list[Argument] = []
    constexprs: dict[str, object] = {}
    for (name, kind), value in zip(source.signature.items(), arguments, strict=True):
        if kind == "constexpr":
            constexprs[name] = value
        else:
            kept.append(Argument(name, _argument_value(name, kind, value, names or {})))
    file, first_line, text = _source_of(source.fn)
    return Launch(
        kernel=metadata.name,
        ttir=ttir,
        arguments=tuple(kept),
        grid=grid,
        constexprs=constexprs,
        options={"num_warps": metadata.num_warps, "num_stages": metadata.num_stages},
        file=file,
        first_line=first_line,
        source=text,
    )


def _argument_value(name: str, kind: Any, value: Any, names: dict[int, str]) -> ArgumentValue:
    if isinstance(value, bool | int | float):
        return value
    if hasattr(value, "data_ptr"):
        return memory_of(name, value, names.get(id(value), name.removesuffix("_ptr")))
    raise UnsupportedError(
        f"argument {name} of type {type(value).__name__} ({kind})",
        expected="a tensor, an int, a float or a bool",
        next_step="tuples and host-side tensor descriptors have no rule in the engine yet",
    )


def _source_of(function: Any) -> tuple[str, int, str]:
    plain = getattr(function, "fn", function)
    lines, first_line = inspect.getsourcelines(plain)
    return inspect.getsourcefile(plain) or "", first_line, "".join(lines)


def _names_of_tensors() -> dict[int, str]:
    """The caller's variable names for its tensors, by id(): read from the frame that launched."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_PACKAGES):
        frame = frame.f_back
    if frame is None:
        return {}
    scope = {**frame.f_globals, **frame.f_locals}
    return {id(value): name for name, value in scope.items() if isinstance(value, torch.Tensor)}
