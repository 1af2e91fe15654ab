"""Run a script unchanged and see every Triton launch and every compiled region in it."""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from unittest.mock import patch

from tilesight.capture.inductor.on_engine import compiled_on_engine
from tilesight.capture.launch_errors import explain_failure
from tilesight.capture.launches import EngineSession
from tilesight.capture.lent.lend import lend_missing_gpu
from tilesight.capture.provenance import Provenance
from tilesight.capture.subject import parse_spec
from tilesight.errors import TilesightError
from tilesight.roads.describe import describe_graph
from tilesight.roads.model import ScriptRun
from tilesight.roads.traces import CheckedTraceObserver, TraceObserver
from tilesight.targets import target as find_target


def run_script(script: str, args: Sequence[str], *, target: str, check: bool) -> ScriptRun:
    """What a script launched and compiled, run on the engine.

    Args:
        script: path of the script; its own arguments are `args`
        target: the GPU that torch.compile generates code for
        check: look for every kind of fault; out-of-bounds is always found
    Raises:  InputError: when the script does not exist, or raises before anything was launched or compiled
    """
    path = parse_spec(script).path
    chosen = find_target(target)
    lent = lend_missing_gpu(chosen)
    session = EngineSession(int(chosen.arch), is_pinned=True, lent=lent)
    observer = CheckedTraceObserver(session, chosen) if check else TraceObserver()
    session.observers.append(observer)
    watched = Provenance() if check else contextlib.nullcontext()
    with session, compiled_on_engine(chosen) as compiled, lent or contextlib.nullcontext(), watched:
        exit_code, failure = _execute(path, args)
        observer.finish()
    if failure is not None and not observer.traces and not any(each.graphs for each in compiled):
        raise failure
    regions = tuple(
        describe_graph(graph, subject=f"{path.name}:{each.subject}", inputs=(), target=chosen)
        for each in compiled
        for graph in each.graphs
    )
    told = str(failure) if failure is not None else ""
    notes = (f"the script ended early: {told}",) if told else ()
    return ScriptRun(str(path), exit_code, tuple(observer.traces), regions, notes, told)


def _execute(path: Path, args: Sequence[str]) -> tuple[int, TilesightError | None]:
    """Run the file as `python FILE ARGS…` would; its exit code, and what it raised."""
    with _as_main(path, args):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as stop:
            return _exit_code(stop), None
        except TilesightError as error:
            return error.exit_code, error
        except Exception as error:
            explained = explain_failure(error, path)
            explained.__cause__ = error
            return explained.exit_code, explained
    return 0, None


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1


@contextlib.contextmanager
def _as_main(path: Path, args: Sequence[str]) -> Generator[None]:
    with (
        patch.object(sys, "argv", [str(path), *args]),
        patch.object(sys, "path", [str(path.resolve().parent), *sys.path]),
    ):
        yield
