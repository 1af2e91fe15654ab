"""One tool on kernels of the corpus: each launch in a process of its own, one JSON object a line.

`python -m benchmarks.yardsticks.sanitizer_child TOOL PATH SECONDS PAIR…`, with the environment that the
tool asks for; TileLens' own command runs this file as the script to look at.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import torch

from benchmarks.yardsticks.outcomes import describe_failure, on_one_line
from tests.corpus.catalogue import ALL
from tests.corpus.model import Seeded, fault_lines
from tilesight import Case
from tilesight.capture.numerics import judge, reference_outputs
from tilesight.roads.check import check

MOST_FAILED_CASES = 3
PACKAGES = {"tilesight": "triton", "interpreter": "triton", "tilelens": "tilelens"}
REPORT_OF_TILELENS = re.compile(r"ILLEGAL MEMORY ACCESS DETECTED|Out-Of-Bounds Access Detected")
PLACE_OF_TILELENS = re.compile(
    r"File:\s*(?P<file>[^\n,]+?)\s*(?:\n\s*Function:[^\n]*)?(?:\n\s*|,\s*)Line:?\s*(?P<line>\d+)"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def tilesight_says(seeded: Seeded, subject: Any) -> dict[str, Any]:
    """The check's findings, notes included, and the first cases that failed."""
    found = check(subject, target=seeded.target, scale_to=seeded.scale_to)
    reports = [
        report(f"{each.message} | {each.hint}", each.file, each.line, each.kind, each.level) for each in found.findings
    ]
    failed = [report(f"failed {case.inputs} {case.note or case.error}") for case in found.cases if case.ok is False]
    return {"reports": [*reports, *failed[:MOST_FAILED_CASES]]}


def launch_says(seeded: Seeded, subject: Any) -> dict[str, Any]:
    """Whether the launch, or the case's launcher on the case's own inputs, gives the pair's reference."""
    if not isinstance(subject, Case):
        outputs, expected = subject(), seeded.expected
        references = [expected()] if expected is not None else None
    else:
        assert subject.hand is not None
        inputs = subject.make_inputs()
        outputs = subject.hand(*inputs)
        references = reference_outputs(subject.reference or subject.eager, subject.make_inputs())
    if references is None or not isinstance(outputs, torch.Tensor):
        return {"reports": []}
    same_size = references[0].numel() == outputs.numel()
    verdict = judge(outputs, [references[0].reshape(outputs.shape)]) if same_size else None
    return {"reports": [], "numbers_right": verdict is not None and verdict.ok}


TOOLS: dict[str, Callable[[Seeded, Any], dict[str, Any]]] = {
    "tilesight": tilesight_says,
    "interpreter": launch_says,
    "tilelens": launch_says,
}


def report(text: str, file: str = "", line: int = 0, kind: str = "", level: str = "error") -> dict[str, Any]:
    return {"kind": kind, "level": level, "place": f"{Path(file).name}:{line}", "text": on_one_line(text)}


def run_apart(work: Callable[[], dict[str, Any]], limit_s: float) -> dict[str, Any]:
    """What `work` returns, run in a fork of this process, and how that ended.

    Returns: its result with `ending` ("ended", "raised", "died", "not finished"), `error`, `seconds`, `printed`
    """
    started = time.perf_counter()
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if child == 0:
            _work_and_leave(work, writing, printed.fileno())
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            written = b"".join(_read_until(pipe.fileno(), started + limit_s))
        is_late = not written and time.perf_counter() - started >= limit_s
        if is_late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        printed.seek(0)
        text = COLOUR.sub("", printed.read().decode(errors="replace"))
    if written:
        result = json.loads(written)
    elif is_late:
        result = {"ending": "not finished", "error": f"not finished after {limit_s:g} s"}
    else:
        result = {"ending": "died", "error": _how_it_died(os.waitstatus_to_exitcode(status))}
    return {"reports": [], **result, "seconds": round(time.perf_counter() - started, 2), "printed": text}


def _work_and_leave(work: Callable[[], dict[str, Any]], writing: int, printed: int) -> NoReturn:
    """The forked process: its result goes into the pipe, what it prints into the file; it never returns."""
    os.setpgid(0, 0)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    sys.stdout = sys.stderr = io.TextIOWrapper(os.fdopen(printed, "wb", 0, closefd=False), write_through=True)
    try:
        warnings.simplefilter("ignore")
        result = {"ending": "ended", "error": "", **work()}
    except (Exception, SystemExit) as error:
        result = {"ending": "raised", "error": describe_failure(error)}
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(result).encode())
    os._exit(0)


def _read_until(descriptor: int, deadline: float) -> Iterator[bytes]:
    while select.select([descriptor], [], [], max(0.0, deadline - time.perf_counter()))[0]:
        part = os.read(descriptor, 65536)
        if not part:
            return
        yield part


def _how_it_died(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def reported_by_tilelens(said: dict[str, Any]) -> dict[str, Any]:
    """What TileLens printed before it left, as a report at the last place that it names.

    Under it a launch writes nothing, so there are no numbers to judge.
    """
    printed, said = said["printed"], {**said, "numbers_right": None}
    if said["ending"] != "raised" or not REPORT_OF_TILELENS.search(printed):
        return said
    places = list(PLACE_OF_TILELENS.finditer(printed))
    place = (places[-1]["file"], int(places[-1]["line"])) if places else ("", 0)
    return {**said, "ending": "ended", "error": "", "reports": [report("illegal memory access", *place)]}


def main(tool: str, path: str, limit_s: str, wanted: list[str]) -> None:
    versions = {name: metadata.version(name) for name in {"torch", "triton", "numpy", PACKAGES[tool]}}
    with Path(path).open("w") as file:
        file.write(json.dumps({"versions": versions}) + "\n")
        for seeded in ALL:
            if not {seeded.kind, str(seeded)} & set(wanted):
                continue
            record: dict[str, Any] = {
                "kind": seeded.kind,
                "name": seeded.name,
                "shape": seeded.shape,
                "lines": sorted(f"{Path(name).name}:{line}" for name, line in fault_lines(seeded)),
            }
            for side, subject in (("faulty", seeded.faulty), ("repaired", seeded.repaired)):
                said = run_apart(partial(TOOLS[tool], seeded, subject), float(limit_s))
                record[side] = reported_by_tilelens(said) if tool == "tilelens" else said
                del record[side]["printed"]
            file.write(json.dumps(record) + "\n")
            file.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
