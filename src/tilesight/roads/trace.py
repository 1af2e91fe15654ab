"""The hand-written road: run a launch on the engine and tell its tiles, masks, addresses and bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tilesight.capture.launch_errors import explain_failure
from tilesight.capture.launches import EngineSession
from tilesight.capture.lent.lend import lend_missing_gpu
from tilesight.capture.subject import load, look_up, parse_spec
from tilesight.errors import InputError, TilesightError
from tilesight.roads.model import Trace
from tilesight.roads.run import run_script
from tilesight.roads.traces import trace
from tilesight.targets import target as find_target


def trace_spec(spec: str, args: Sequence[str], *, target: str) -> list[Trace]:
    """The Traces of every launch of a script, or of one launch function in a file.

    Args:
        spec: SCRIPT.py, run with `args`, or FILE.py:LAUNCH or package.module:LAUNCH, a function without arguments
        target: name of a GPU
    Raises:  InputError: when the file, the name or what it runs can't be used
    """
    parsed = parse_spec(spec)
    find_target(target)
    if not parsed.name:
        run = run_script(spec, args, target=target, check=False)
        if run.failure:
            raise InputError(run.failure)
        traces = list(run.launches)
    else:
        traces = _trace_launch(spec, target)
    if not traces:
        raise InputError("no Triton kernel was launched", where=spec, expected="a script or function that launches one")
    return traces


def _trace_launch(spec: str, target: str) -> list[Trace]:
    parsed = parse_spec(spec)
    chosen = find_target(target)
    lent = lend_missing_gpu(chosen)
    with EngineSession(int(chosen.arch), is_pinned=True, lent=lent), lent or contextlib.nullcontext():
        launch = look_up(load(parsed), parsed)
        if not callable(launch):
            kind = type(launch).__name__
            raise InputError(
                f"{parsed.name} is of type {kind}", where=str(parsed.path), expected="a function without arguments"
            )
        try:
            return trace(launch, target=target)
        except TilesightError:
            raise
        except Exception as error:
            raise explain_failure(error, parsed.path) from error
