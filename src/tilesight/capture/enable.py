"""Switch the engine on and off in a script."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from tilesight.capture.inductor.on_engine import compiled_on_engine
from tilesight.capture.launches import EngineSession, installed_session
from tilesight.checks.bounds import BoundsCheck
from tilesight.engine import Execution, ExecutionOptions
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Listener
from tilesight.targets import target as find_target


class OutOfBoundsWarning(UserWarning):
    """A kernel touched memory outside a tensor; the engine kept it from happening."""


class _WarnOutOfBounds:
    """Says each out-of-bounds access once, where nobody else listens."""

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        return (BoundsCheck(),)

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        for check in listeners:
            if isinstance(check, BoundsCheck):
                for finding in check.findings():
                    text = f"{finding.file}:{finding.line}: {finding.message}; {finding.hint}"
                    warnings.warn(text, OutOfBoundsWarning, stacklevel=2)


def enable(*, compile_for: str | None = None, arch: int = 90, options: ExecutionOptions | None = None) -> EngineSession:
    """Make Triton run kernels on CPU tensors, on the engine, until `disable()`.

    A second call returns the session that is already there. A machine's GPU is left alone: tensors
    that live on it are refused with a message.

    Args:
        compile_for: name of a GPU: `torch.compile` generates its code and the engine runs that code;
            None leaves torch.compile alone
        arch: compute capability the front end specialises for, such as 90
        options: memory cap, chunk size and the value of undefined lanes
    Returns: the session
    """
    session = installed_session()
    if session is None:
        session = EngineSession(arch, options)
        session.observers.append(_WarnOutOfBounds())
        session.install()
    if compile_for is not None:
        session.redirect_compile(compiled_on_engine(find_target(compile_for)))
    return session


def disable() -> None:
    """Give Triton back the driver it had before `enable()`."""
    session = installed_session()
    if session is not None and not session.is_pinned:
        session.uninstall()
