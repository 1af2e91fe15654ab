"""The compiled road of a TORCH_TRACE log: `tilesight observe LOG_DIRECTORY`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tilesight.capture.inductor.graph import CompiledGraph, CompiledRegion
from tilesight.capture.inductor.saved_code import SavedCode, read_code
from tilesight.capture.inductor.timeline import timeline_of
from tilesight.capture.inductor.trace_log import LoggedRegion, LoggedWork, read_log
from tilesight.capture.inductor.trace_records import is_trace_log
from tilesight.errors import InputError
from tilesight.ledger.model import KernelTraffic, Ledger
from tilesight.roads.model import Break, CompileTimes, Observation, Observations
from tilesight.roads.saved_code import describe_codes, measure

LOG_PATTERN = "dedicated_log_torch_trace_*.log"
CLOSED_LINES = 50
"""Lines of a file that are looked at to tell whether it is a log."""


def find_logs(path: Path) -> list[Path]:
    """The structured logs at a path: the file itself, or those in a folder, one a process, oldest first."""
    if path.is_dir():
        return sorted(path.glob(LOG_PATTERN), key=lambda log: (log.stat().st_mtime, log.name))
    with path.open(encoding="utf-8", errors="replace") as file:
        head = [line for line, _ in zip(file, range(CLOSED_LINES), strict=False)]
    return [path] if is_trace_log(head) else []


def observe_logs(subject: str, logs: Sequence[Path]) -> Observations:
    """Every compiled region of the logs, each an Observation; a log that was cut off is shown up to there.

    Raises: InputError: when no region stands in them
    """
    regions: list[Observation] = []
    notes: list[str] = []
    for log in logs:
        work = read_log(log.read_text(encoding="utf-8", errors="replace"))
        prefix = f"{log.name}: " if len(logs) > 1 else ""
        notes += [f"{prefix}{sentence}" for sentence in work.damage]
        regions += [_observe_region(region, work, prefix) for region in work.regions]
    if not regions:
        raise InputError("no compiled region in the log", where=subject, expected="a log that TORCH_TRACE wrote")
    return Observations(subject, tuple(regions), tuple(notes))


def _observe_region(region: LoggedRegion, work: LoggedWork, prefix: str) -> Observation:
    codes, notes = _read_codes(region)
    traffic: list[KernelTraffic | None] = []
    for code in codes:
        measured, sentences = measure(code)
        traffic += measured
        notes += [*sentences, *code.notes]
    uncompiled = CompiledRegion(region.fx, region.post_grad, "", (), (), {}, ())
    graph = CompiledGraph(tuple(code.region for code in codes) or (uncompiled,), (), 0.0, None, "")
    name = f"{prefix}{region.name or 'compilation'} {region.source} [{region.compile_id}]".replace("  ", " ")
    seen = describe_codes(graph, codes, name, traffic, list(dict.fromkeys(notes)))
    return replace(
        seen,
        output_code=tuple(code.region.code for code in codes),
        ledger=seen.ledger if codes else Ledger(None, None, None),
        torch=work.torch.split("+")[0],
        breaks=tuple(Break(each.source, each.reason) for each in dict.fromkeys(region.breaks)),
        compile=CompileTimes(region.seconds, None, ", ".join(region.caches) or None),
        recompiles=tuple(region.recompiles),
        guards=tuple(region.guards),
        timeline=timeline_of(region.events),
    )


def _read_codes(region: LoggedRegion) -> tuple[list[SavedCode], list[str]]:
    """The generated code of the region with its graphs; a sentence for each that cannot be read."""
    notes = [f"not compiled: {region.failure}"] if region.failure else []
    if not region.is_closed:
        notes.append("the log ends before this compilation does: what follows is what had been written")
    codes: list[SavedCode] = []
    for logged in region.codes:
        try:
            saved = read_code(logged.text, "generated code")
        except InputError as error:
            notes.append(f"generated code not shown: {error}")
            continue
        fx = region.fx if not codes else ()
        codes.append(replace(saved, region=replace(saved.region, fx=fx, aten=logged.aten or saved.region.aten)))
    if not region.codes and not region.failure:
        notes.append("no generated code in the log: Dynamo found nothing to compile, or another back end was used")
    return codes, notes
