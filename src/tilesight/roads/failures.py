"""What a run that ended in an exception means: a refusal on purpose, or a failure."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

from tilesight.capture.launch_errors import explain_failure
from tilesight.capture.subject import describe
from tilesight.errors import InputError, TilesightError

REFUSALS = (ValueError, AssertionError, TypeError, NotImplementedError, RuntimeError, InputError)
"""What a launcher raises to refuse an input."""


def _package(name: str) -> Path:
    """The folder of an imported package."""
    return Path(str(sys.modules[name].__file__)).parent


_OWN = Path(__file__).parents[1]
_LIBRARIES = (_package("torch"), _package("triton"), _OWN)
_REFUSING = (_package("triton") / "tools", _OWN / "kernels")
"""Parts of those packages that are launchers' own code: descriptors and the hand-written library."""


def is_refusal(error: BaseException) -> bool:
    """Whether a launcher raised this on purpose: a `raise` or `assert` statement outside torch and Triton.

    An error of the same class that an expression ran into (`int("a")`, a failed torch call) is none.
    """
    if not isinstance(error, REFUSALS):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and _is_authors(trace) and _is_raise(trace)


def _is_authors(trace: TracebackType) -> bool:
    file = Path(trace.tb_frame.f_code.co_filename)
    if any(file.is_relative_to(part) for part in _REFUSING):
        return True
    return not any(file.is_relative_to(part) for part in _LIBRARIES)


def _is_raise(trace: TracebackType) -> bool:
    """Whether the frame stopped at a `raise` or `assert` statement."""
    instructions = dis.get_instructions(trace.tb_frame.f_code)
    return any(each.offset == trace.tb_lasti and each.opname == "RAISE_VARARGS" for each in instructions)


def tell(error: BaseException, function: Callable[..., Any]) -> str:
    """The exception in one line, with the line of the function's file where it arose."""
    if isinstance(error, TilesightError) or not isinstance(error, Exception):
        text = str(error) if isinstance(error, TilesightError) else describe(error)
    else:
        failure = explain_failure(error, file_of(function))
        text = f"{failure.where}: {failure.got}" if failure.where else failure.got
    return " ".join(text.split())


def plain_function(function: Any) -> Any:
    """The Python function behind partial objects, decorators and methods; other callables as they are."""
    while not isinstance(function, FunctionType):
        inner = function.func if isinstance(function, partial) else getattr(function, "__wrapped__", None)
        inner = inner or getattr(function, "__func__", None) or getattr(function, "fn", None)
        if inner is None:
            return function
        function = inner
    return inspect.unwrap(function)


def file_of(function: Callable[..., Any]) -> Path:
    """The file that a function is written in; an empty path where that is not known."""
    return place_of(function)[0]


def place_of(function: Callable[..., Any]) -> tuple[Path, int]:
    """The file and the first line of a function, or of a callable object's `__call__`; an empty path for others."""
    plain = plain_function(function)
    code = getattr(plain if isinstance(plain, FunctionType) else plain.__call__, "__code__", None)
    return (Path(code.co_filename), code.co_firstlineno) if code is not None else (Path(), 0)
