"""What Triton's front end refuses, told with the kernel, the user's line and what it takes.

Triton raises plain Python errors while it binds a launch's arguments, and a CompilationError whose line
counts from the kernel's first. Seen on Triton 3.6, 3.7.1 and 3.8.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

from tilesight.capture.subject import describe, line_of, next_step_after
from tilesight.errors import InputError

_OF_BINDING = (TypeError, KeyError, ValueError, OverflowError, RuntimeError, AttributeError)


def explain_failure(error: Exception, path: Path) -> InputError:
    """An exception of a user's script as one line: where, what, and what to do.

    Args:
        error: what the script raised
        path: the script, whose line is named
    """
    if isinstance(error, CompilationError):
        return _compilation(error, path)
    kernel = _kernel_in(error)
    if kernel is not None and isinstance(error, _OF_BINDING):
        return _binding(error, kernel, path)
    return InputError(describe(error), where=line_of(error, path), next_step=next_step_after(error, "the script"))


def _compilation(error: CompilationError, path: Path) -> InputError:
    return InputError(
        f"the kernel does not compile: {compilation_reason(error)}",
        where=compilation_place(error) or line_of(error, path),
        next_step=f"Triton refuses it on a GPU too; it was launched at {line_of(error, path)}",
    )


def compilation_reason(error: CompilationError) -> str:
    """What Triton says of the construct that it refused, in one line."""
    inner = _innermost(error)
    return (getattr(inner, "error_message", None) or describe(inner)).strip().splitlines()[-1]


def compilation_place(error: CompilationError, kernel: Any = None) -> str:
    """file:line of the construct that was refused; empty where its function is not found.

    Args:
        kernel: the JITFunction that was compiled; None where the traceback tells it
    """
    return _kernel_line(_innermost(error), _launched(error)[-1:] if kernel is None else [kernel])


def _innermost(error: CompilationError) -> CompilationError:
    """The error of the function that Triton was in, beneath those of its callers."""
    while isinstance(error.__cause__, CompilationError):
        error = error.__cause__
    return error


def _kernel_line(error: CompilationError, kernels: Sequence[Any]) -> str:
    line = getattr(getattr(error, "node", None), "lineno", None)
    # Triton cuts its own frames off the traceback; what is left of the function is its text.
    near = [candidate for kernel in kernels for candidate in (kernel, *kernel.fn.__globals__.values())]
    functions = (it for it in (*near, *gc.get_objects()) if issubclass(type(it), JITFunction) and it.src == error.src)
    function: Any = next(functions, None)
    if line is None or function is None:
        return ""
    lines, first_line = inspect.getsourcelines(function.fn)
    above = next(index for index, text in enumerate(lines) if text.lstrip().startswith("def "))
    return f"{inspect.getsourcefile(function.fn)}:{first_line + above + line - 1}"


def _binding(error: Exception, kernel: Any, path: Path) -> InputError:
    message = str(error.args[0]) if error.args else describe(error)
    if isinstance(error, KeyError) and " " not in message:
        message = f"no kernel takes a tensor of {message}"
    return InputError(
        f"{kernel.fn.__name__} can't be launched so: {message.removeprefix('dynamic_func()').strip()}",
        where=line_of(error, path),
        expected=f"a value for each of {', '.join(kernel.arg_names)}, and Triton's options by name",
        next_step="arguments are tensors, numbers, tuples of them, tensor descriptors and None",
    )


def _kernel_in(error: Exception) -> Any:
    """The kernel whose launch raised the error before it ran; None where none did."""
    frames = list(_frames(error))
    launched = _launched(error)
    is_outside = bool(frames) and not frames[-1].f_globals.get("__name__", "").startswith(("triton.", "torch."))
    is_bound = any(frame.f_code.co_name == "dynamic_func" for frame in frames)
    return launched[-1] if launched and (not is_outside or is_bound) else None


def _launched(error: BaseException) -> list[Any]:
    """The kernels that were being launched, the innermost last."""
    return [frame.f_locals["self"] for frame in _frames(error) if frame.f_code is JITFunction.run.__code__]


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
