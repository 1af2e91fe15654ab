"""The records of a TORCH_TRACE log: one line of JSON each, its payload on lines that begin with a tab.

A record with a payload carries the payload's MD5, so a log that was cut off inside one shows it. Format of
torch._logging's structured trace, seen on torch 2.11.0 to 2.14.1.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_HEAD = re.compile(r"^[VDIWEC]\d{4} [\d:.]+ \d+ \S+?\] (?:\S+ )??(?P<json>\{.*)$")
_PLACE_KEYS = {"frame_id", "frame_compile_id", "attempt", "has_payload", "rank", "process", "thread", "timestamp",
               "pathname", "stack", "compiled_autograd_id"}  # fmt: skip


@dataclass
class Record:
    """One event.

    Args:
        kind: its name, such as `inductor_output_code`; an artifact's own name
        data: what stands under that name
        compile_id: `frame/compilation`, empty for what belongs to no compilation
        payload: the text below it
        is_whole: its payload is what the writer wrote
        line: where it begins (1-based)
    """

    kind: str
    data: dict[str, Any]
    compile_id: str
    payload: str
    is_whole: bool
    line: int


@dataclass
class TraceLog:
    """The records of a log.

    Args:
        records: those that could be read, in order
        files: names of files by the number that stacks use
        damage: where the log could not be read, in words
    """

    records: list[Record] = field(default_factory=list[Record])
    files: dict[int, str] = field(default_factory=dict[int, str])
    damage: list[str] = field(default_factory=list[str])


def is_trace_log(lines: Iterable[str]) -> bool:
    """Whether a text begins as a structured log does; its first lines are enough."""
    return any(_HEAD.match(line) for line in lines)


def read_records(text: str) -> TraceLog:
    """Every record of the log; what cannot be read is named in `damage` and passed over."""
    log = TraceLog()
    for line, head, payload in _entries(text):
        try:
            entry: dict[str, Any] = json.loads(head)
        except json.JSONDecodeError:
            log.damage.append(f"line {line}: a record that is cut off or damaged was passed over")
            continue
        if "str" in entry:
            name, number = entry["str"]
            log.files[int(number)] = str(name)
            continue
        log.records.append(_record(line, entry, payload, log))
    return log


def _record(line: int, entry: dict[str, Any], payload: str, log: TraceLog) -> Record:
    kind = next((key for key in entry if key not in _PLACE_KEYS), "")
    data = entry.get(kind)
    named: dict[str, Any] = data if isinstance(data, dict) else {}
    name = str(named.get("name", kind)) if kind == "artifact" else kind
    frame, compilation = entry.get("frame_id"), entry.get("frame_compile_id")
    compile_id = f"{frame}/{compilation}" if frame is not None and compilation is not None else ""
    is_whole = _is_whole(payload, entry.get("has_payload"))
    if not is_whole:
        log.damage.append(f"line {line}: the text of {name} is cut off or changed; what is there is shown")
    return Record(name, named, compile_id, payload, is_whole, line)


def _is_whole(payload: str, digest: object) -> bool:
    if digest is None:
        return True
    return hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest() == digest


def _entries(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, JSON, payload) of each record."""
    head, start, payload = "", 0, list[str]()
    for number, line in enumerate(text.split("\n"), start=1):
        match = _HEAD.match(line)
        if match is not None:
            if head:
                yield start, head, "\n".join(payload)
            head, start, payload = match.group("json"), number, []
        elif line.startswith("\t"):
            payload.append(line[1:])
        elif line.strip() and head:
            yield start, head, "\n".join(payload)
            head, start, payload = line, number, []
    if head:
        yield start, head, "\n".join(payload)
