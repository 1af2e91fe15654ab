"""Launches of @triton.jit functions: caught, executed on the engine, shown to whoever listens."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import index
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import torch

from tilesight.capture.arguments import split_arguments
from tilesight.capture.autotune import current_autotuning, first_config_is_taken
from tilesight.capture.backend import EngineDriver, active_driver, install_driver, register_backend
from tilesight.capture.reachable import reachable_memories
from tilesight.capture.variants import vary_constants
from tilesight.engine import Execution, ExecutionOptions, execute
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Listener
from tilesight.errors import InputError, TilesightError
from tilesight.ir import Module, parse_module, verify

if TYPE_CHECKING:
    from tilesight.capture.lent.lend import LentCuda

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
        lent: the `cuda:0` that scripts see; None shows them a CPU
    """

    def __init__(
        self,
        arch: int = 90,
        options: ExecutionOptions | None = None,
        *,
        is_pinned: bool = False,
        lent: LentCuda | None = None,
    ) -> None:
        self.options = options or ExecutionOptions()
        self.observers: list[LaunchObserver] = []
        self.is_pinned = is_pinned
        self.lent = lent
        self._driver = EngineDriver(self._run_kernel, arch, self, lent.target if lent else None)
        self._previous: Any = None
        self._modules: dict[str, Module] = {}
        self._compiled: WeakKeyDictionary[Launch, tuple[Any, Any]] = WeakKeyDictionary()
        self.is_installed = False
        self._redirections = contextlib.ExitStack()
        self._has_redirection = False

    def install(self) -> None:
        """Make Triton launch through this session."""
        register_backend()
        self._previous = active_driver()
        install_driver(self._driver)
        self._redirections.enter_context(first_config_is_taken())
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
        """The module of a TTIR text, parsed and verified once.

        Raises: ParseError, VerifyError: for a text that is not TTIR as we know it
        """
        if ttir not in self._modules:
            self._modules[ttir] = _verified_module(ttir)
        return self._modules[ttir]

    def variants(self, launch: Launch) -> Iterator[Module]:
        """The module of a launch that this session ran with other compile-time integers (`capture.variants`)."""
        yield from vary_constants(*self.compiled_from(launch))

    def compiled_from(self, launch: Launch) -> tuple[Any, Any]:
        """Triton's source and metadata of a launch that this session ran: what `lowering` starts from."""
        return self._compiled[launch]

    def _run_kernel(
        self, source: Any, metadata: Any, ttir: str, grid: tuple[int, int, int], arguments: tuple[Any, ...]
    ) -> None:
        frame = _launching_frame()
        try:
            self._execute(source, metadata, ttir, _whole(grid), arguments, frame)
        except TilesightError as error:
            if error.where or frame is None:
                raise
            raise type(error)(
                error.got, where=_place_of(frame), expected=error.expected, next_step=error.next_step
            ) from error

    def _execute(
        self,
        source: Any,
        metadata: Any,
        ttir: str,
        grid: tuple[int, int, int],
        arguments: tuple[Any, ...],
        frame: FrameType | None,
    ) -> None:
        names = _names_of_tensors(frame)
        launch = build_launch(source, metadata, ttir, grid, arguments, names)
        launch = replace(
            launch,
            reachable=reachable_memories(self.module(ttir), launch.arguments, names),
            launched_at=_place_of(frame),
            autotuning=current_autotuning(),
        )
        self._compiled[launch] = source, metadata
        heard = [(observer, tuple(observer.launch_begins(launch))) for observer in self.observers]
        listeners = [listener for _, mine in heard for listener in mine]
        execution = execute(self.module(ttir), launch, listeners, self.options)
        for observer, mine in heard:
            observer.launch_ends(launch, execution, mine)


@lru_cache(maxsize=64)
def _verified_module(ttir: str) -> Module:
    """What a text says; sessions that follow each other, as in a test suite, launch the same kernels."""
    module = parse_module(ttir)
    verify(module)
    return module


def on_engine() -> contextlib.AbstractContextManager[object]:
    """While it lasts Triton's launches run on the engine: in the session that is installed, or in one of its own."""
    return contextlib.nullcontext() if installed_session() else EngineSession(is_pinned=True)


def installed_session() -> EngineSession | None:
    """The session that Triton launches through at present; None when there is none."""
    session = getattr(active_driver(), "session", None)
    return session if isinstance(session, EngineSession) else None


def lent_again() -> contextlib.AbstractContextManager[None]:
    """Lend the session's device also where torch's compiler has suspended it: for the code that it made."""
    session = installed_session()
    return contextlib.nullcontext() if session is None or session.lent is None else session.lent.resumed()


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
    kept, constexprs = split_arguments(source.signature, arguments, names or {}, metadata.target.arch)
    file, first_line, text = _source_of(getattr(source.fn, "fn", source.fn))
    return Launch(
        kernel=metadata.name,
        ttir=ttir,
        arguments=kept,
        grid=grid,
        constexprs=constexprs,
        options={"num_warps": metadata.num_warps, "num_stages": metadata.num_stages},
        file=file,
        first_line=first_line,
        source=text,
    )


@lru_cache(maxsize=256)
def _source_of(function: Any) -> tuple[str, int, str]:
    """File, first line and text of a Python function; read once, since finding where it ends reads all its tokens."""
    lines, first_line = inspect.getsourcelines(function)
    return inspect.getsourcefile(function) or "", first_line, "".join(lines)


def _whole(grid: Sequence[Any]) -> tuple[int, int, int]:
    """The grid's extents as ints.

    Raises: InputError: for one that is no whole number, as Triton's own launcher refuses it
    """
    try:
        x, y, z = (index(extent) for extent in grid)
    except TypeError as error:
        raise InputError(
            f"a grid of {tuple(grid)}", expected="whole numbers", next_step="use triton.cdiv or //"
        ) from error
    return x, y, z


def _launching_frame() -> FrameType | None:
    """The frame that launched: the innermost one outside Tilesight and Triton."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_PACKAGES):
        frame = frame.f_back
    return frame


def _place_of(frame: FrameType | None) -> str:
    """`file:line` of a frame; empty for none."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def _names_of_tensors(frame: FrameType | None) -> dict[int, str]:
    """The caller's variable names for its tensors, by id()."""
    if frame is None:
        return {}
    scope = {**frame.f_globals, **frame.f_locals}
    return {id(value): name for name, value in scope.items() if isinstance(value, torch.Tensor)}
