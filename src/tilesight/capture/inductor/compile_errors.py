"""What torch raised while it compiled, in one sentence that says where, why and what to do."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tilesight.capture.inductor.graph import GraphBreak
from tilesight.capture.inductor.guards import break_reason
from tilesight.capture.inductor.nodes import is_library_file, user_line
from tilesight.errors import InputError, TilesightError, UnsupportedError

_DATA_DEPENDENT = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")
_DEVICES = re.compile(r"two (?:different )?devices,? (\w+(?::\d+)?)(?:,| and)+ ?(\w+(?::\d+)?)")
_EVERYWHERE = "values do not exist without a GPU; observe the parts around it"


def explained_failure(error: Exception) -> TilesightError:
    """Tilesight's own error for what ended a call of a compiled function."""
    cause = innermost(error)
    if isinstance(cause, TilesightError):
        return cause
    place = user_line(str(error))[0] or _raised_at(cause)
    name, text = type(cause).__name__, f"{error}\n{cause}"
    if name == "DynamicOutputShapeException":
        what = f"the shape of what {first_line(cause)} returns depends on data"
        expected = "shapes that inputs alone tell"
        return UnsupportedError(what, where=_raised_at(cause), expected=expected, next_step=_EVERYWHERE)
    if name in _DATA_DEPENDENT:
        what = "the function reads a tensor's value (such as .item())"
        expected = "a function whose shape does not depend on data"
        return UnsupportedError(what, where=_raised_at(cause), expected=expected, next_step=_EVERYWHERE)
    devices = _DEVICES.search(text)
    if devices is not None:
        return InputError(
            f"tensors on two devices meet: {devices[1]} and {devices[2]}",
            where=place,
            expected="all on cuda:0, where inputs, weights and buffers are taken to be",
            next_step="make what the function makes or finds elsewhere there too, such as with device=x.device",
        )
    expected, next_step = "inputs the function accepts", "check --inputs against the function's shapes and dtypes"
    if "fake impl" in text:
        expected, next_step = "operators that tell shapes without data", "give the operator a register_fake"
    return InputError(
        f"the function failed on these inputs: {_reason(cause)}", where=place, expected=expected, next_step=next_step
    )


def refused_by_inductor(error: Exception) -> str:
    """Why a graph was not compiled, in one line."""
    cause = innermost(error)
    return f"{type(cause).__name__}: {first_line(cause)}"


def innermost(error: BaseException) -> BaseException:
    """The first cause, or Tilesight's own error on the way there: torch wraps what a back end raises."""
    while not isinstance(error, TilesightError):
        cause = getattr(error, "inner_exception", None) or error.__cause__
        if cause is None:
            break
        error = cause
    return error


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


def compilations() -> list[Any]:
    """torch's records of its latest compilations, oldest first. Seen on torch 2.11.0 to 2.14.1."""
    return list(import_module("torch._dynamo.utils").get_compilation_metrics())


def frames_left_to_eager(before: Sequence[Any]) -> tuple[GraphBreak, ...]:
    """The user's functions that Dynamo gave up as a whole, with its reason.

    Args:
        before: what `compilations()` was
    """
    known = {id(each) for each in before}
    failed = [each for each in compilations() if id(each) not in known and each.fail_reason]
    own = [each for each in failed if not is_library_file(str(each.co_filename))]
    return tuple(GraphBreak(_place_of(each), _left_to_eager(each)) for each in own)


def _left_to_eager(record: Any) -> str:
    return f"{record.co_name} runs in eager mode as a whole: {break_reason(str(record.fail_reason))}"


def _place_of(record: Any) -> str:
    if record.fail_user_frame_filename:
        return f"{record.fail_user_frame_filename}:{record.fail_user_frame_lineno}"
    return f"{record.co_filename}:{record.co_firstlineno}"


def _reason(error: BaseException) -> str:
    """The operator's own complaint where Dynamo quotes it, else the message's first line."""
    quoted = re.search(r"got (\w+\((?:'[^\n]*'|\"[^\n]*\")\))", str(error))
    return quoted.group(1) if quoted else f"{type(error).__name__}: {first_line(error)}"


def _raised_at(error: BaseException) -> str:
    """file:line of the last frame outside torch and Tilesight."""
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    own = [f"{file}:{line}" for file, line in frames if not is_library_file(file) and not file.startswith("<")]
    return own[-1] if own else ""
