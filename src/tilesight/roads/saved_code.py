"""The compiled road of generated code from a file: `tilesight observe output_code.py`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tilesight.capture.inductor.graph import Call, CompiledGraph, CompiledRegion, Node
from tilesight.capture.inductor.readable_graph import read_graph_beside
from tilesight.capture.inductor.saved_code import SavedCode, read_code
from tilesight.capture.inductor.standalone import StandaloneLaunch, stand_alone
from tilesight.errors import InputError, TilesightError
from tilesight.ledger.model import KernelTraffic
from tilesight.roads.describe import describe_graph
from tilesight.roads.model import CompileTimes, Observation
from tilesight.roads.traces import TraceObserver, traced
from tilesight.targets import target as find_target

LAUNCH_LIMIT_BYTES = 16_000_000
"""A kernel whose tensors together stay under this is run on the engine, to count its bytes."""
FALLBACK_TARGET = "h200"


def observe_code_file(path: Path) -> Observation:
    """The Observation of a generated wrapper in a file; what the file does not tell is None or empty.

    The graph comes from the files beside it where TORCH_COMPILE_DEBUG wrote them, else from the comments above
    each kernel.

    Raises: InputError: when the file can't be read or is not Inductor's
    """
    text = read_text(path)
    return observe_code(text, str(path), aten=read_graph_beside(path))


def observe_code(
    text: str,
    where: str,
    *,
    fx: tuple[Node, ...] = (),
    aten: tuple[Node, ...] = (),
    is_measured: bool = True,
) -> Observation:
    """The Observation of a generated wrapper.

    Args:
        where: the file, or what else the code came from
        fx, aten: its graphs, where they are known from elsewhere
        is_measured: run the kernels on the engine to count their bytes
    """
    saved = read_code(text, where)
    region = replace(saved.region, fx=fx, aten=aten or saved.region.aten)
    saved = replace(saved, region=region)
    traffic, notes = measure(saved) if is_measured else ([], ["kernel bytes not measured: only the code was read"])
    if not aten:
        notes.append("the graph is what the comments above the kernels tell; extern calls' operators are not in it")
    return describe_saved(saved, where, traffic, notes)


def describe_saved(
    saved: SavedCode, subject: str, traffic: Sequence[KernelTraffic | None], notes: Sequence[str]
) -> Observation:
    """The Observation of code that was read."""
    graph = CompiledGraph((saved.region,), (), 0.0, None, "")
    return describe_codes(graph, [saved], subject, traffic, [*saved.notes, *notes])


def describe_codes(
    graph: CompiledGraph,
    codes: Sequence[SavedCode],
    subject: str,
    traffic: Sequence[KernelTraffic | None],
    notes: Sequence[str],
) -> Observation:
    """The Observation of graphs whose code was read.

    Versions, times and eager's bytes are not in code, so they are unknown.
    """
    seen = describe_graph(
        graph,
        subject=subject,
        inputs=inputs_of(codes[0].region) if codes else (),
        target=find_target(FALLBACK_TARGET),
        traffic=traffic,
        notes=tuple(notes),
    )
    devices = list(dict.fromkeys(code.device_text for code in codes if code.device_text))
    return replace(seen, target=", ".join(devices) or "unknown", torch="", triton="", compile=CompileTimes())


def inputs_of(region: CompiledRegion) -> tuple[str, ...]:
    """The graph's inputs as `float32[64, 32]`, in the wrapper's order."""
    match = re.search(r"^\s*(.+?),? = args$", region.code, re.MULTILINE)
    names = [name.strip() for name in match.group(1).split(",")] if match else []
    buffers = [region.buffers[name] for name in names if name in region.buffers]
    return tuple(f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]" for buffer in buffers)


def measure(saved: SavedCode) -> tuple[list[KernelTraffic | None], list[str]]:
    """Each call's traffic, its kernel run alone on the engine with random inputs; and why others have none."""
    found: list[KernelTraffic | None] = []
    notes: list[str] = []
    known = {kernel.name for kernel in saved.region.kernels if kernel.configs}
    for call in saved.region.calls:
        try:
            found.append(_measured(saved, call) if call.is_triton and call.kernel in known else None)
        except TilesightError as error:
            found.append(None)
            notes.append(f"{call.kernel}: bytes unknown: {error}")
    if any(found):
        notes.append("kernel bytes: each kernel run alone on the engine, on random inputs of its sizes")
    return found, list(dict.fromkeys(notes))


def _measured(saved: SavedCode, call: Call) -> KernelTraffic:
    launch = stand_alone(saved.region, call)
    if launch.bytes > LAUNCH_LIMIT_BYTES:
        limit = LAUNCH_LIMIT_BYTES // 1_000_000
        raise InputError(f"its tensors take {launch.bytes:,} bytes, more than the {limit} MB that are run here")
    observer = TraceObserver()
    named = saved.targets[0].name if saved.targets and saved.targets[0].backend == "cuda" else FALLBACK_TARGET
    traced(_launch, observer, launch, target=named)
    return observer.traces[0].traffic


def _launch(launch: StandaloneLaunch) -> None:
    launch.run(launch.make_tensors())


def read_text(path: Path) -> str:
    """The file's text.

    Raises: InputError: when it can't be read or is no text
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError("not a text file", where=str(path), expected="a file that Inductor or torch wrote") from error
    except OSError as error:
        raise InputError(str(error.strerror), where=str(path), expected="a file that can be read") from error
