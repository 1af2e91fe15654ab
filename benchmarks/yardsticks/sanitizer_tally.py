"""What the three tools' answers come to, kind by kind: found, found on the right line, twins left in peace.

A pair's record has `kind`, `name`, `shape` and, for each tool that was tried, `lines` (file:line where a report
might point when it was) and `faulty` and `repaired`: `ending`, `error`, `reports`, `numbers_right`, `seconds`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]
TOOLS = ("tilesight", "tilelens", "interpreter")


def tally(records: Sequence[Record]) -> dict[str, Any]:
    """Counts of each tool for each kind, and of all kinds together.

    Returns: `by_kind` {kind: {tool: counts}}, `totals` {tool: counts}; `pairs` of a tool are those it was tried on
    """
    kinds = dict.fromkeys(record["kind"] for record in records)
    return {
        "by_kind": {kind: _of_tools([record for record in records if record["kind"] == kind]) for kind in kinds},
        "totals": _of_tools(records),
    }


def _of_tools(records: Sequence[Record]) -> dict[str, dict[str, int]]:
    return {tool: _count(tool, [record for record in records if tool in record]) for tool in TOOLS}


def _count(tool: str, records: Sequence[Record]) -> dict[str, int]:
    verdicts = [verdict(record, tool) for record in records]
    names = verdicts[0] if verdicts else {}
    return {"pairs": len(records), **{name: sum(each[name] for each in verdicts) for name in names}}


def verdict(record: Record, tool: str) -> dict[str, bool]:
    """What a tool made of one pair."""
    return {"tilesight": _tilesight, "tilelens": _tilelens, "interpreter": _interpreter}[tool](record)


def has(record: Record, tool: str, name: str) -> bool | None:
    """One part of a verdict; None when the tool was not tried on the pair."""
    return verdict(record, tool)[name] if tool in record else None


def name_of(record: Record) -> str:
    """`kind/name`, as the corpus calls a pair."""
    return f"{record['kind']}/{record['name']}"


def _tilesight(record: Record) -> dict[str, bool]:
    faulty, repaired = record["tilesight"]["faulty"], record["tilesight"]["repaired"]
    told = [each for each in faulty["reports"] if each["level"] != "note"]
    of_kind = [each for each in told if each["kind"] == record["kind"]]
    return {
        "kind_and_line": any(each["place"] in record["tilesight"]["lines"] for each in of_kind),
        "kind": bool(of_kind),
        "anything": bool(told),
        "twin_quiet": _is_quiet(repaired),
    }


def _tilelens(record: Record) -> dict[str, bool]:
    faulty, repaired = record["tilelens"]["faulty"], record["tilelens"]["repaired"]
    return {
        "reported": bool(faulty["reports"]),
        "on_line": any(each["place"] in record["tilelens"]["lines"] for each in faulty["reports"]),
        "raised": _raises_alone(faulty, repaired),
        "twin_quiet": _is_quiet(repaired),
        "not_run": _is_not_run(repaired),
    }


def _interpreter(record: Record) -> dict[str, bool]:
    faulty, repaired = record["interpreter"]["faulty"], record["interpreter"]["repaired"]
    return {
        "raised": _raises_alone(faulty, repaired),
        "numbers_wrong": faulty.get("numbers_right") is False and repaired.get("numbers_right") is not False,
        "twin_quiet": _is_quiet(repaired),
        "twin_wrong": repaired.get("numbers_right") is False,
        "not_run": _is_not_run(repaired),
    }


def _is_quiet(said: Record) -> bool:
    """It ran to its end and the tool had nothing to say, not so much as a note."""
    return said["ending"] == "ended" and not said["reports"]


def _is_not_run(said: Record) -> bool:
    """The repaired launch does not get to its end under this tool: of the pair it can tell nothing."""
    return said["ending"] != "ended"


def _raises_alone(faulty: Record, repaired: Record) -> bool:
    """The faulty launch ends with an exception or a crash, where its twin runs through."""
    return faulty["ending"] in {"raised", "died"} and repaired["ending"] == "ended"


def merge(old: Sequence[Record], new: Sequence[Record], catalogue: Sequence[tuple[str, str]]) -> list[Record]:
    """The pairs of the catalogue, in its order, each tool's answer the newest there is.

    Args: catalogue: (kind, name) of each pair; what is not in it any more is left out
    """
    found: dict[tuple[str, str], Record] = {}
    for record in (*old, *new):
        key = (record["kind"], record["name"])
        found[key] = {**found.get(key, {}), **record}
    return [found[key] for key in catalogue if key in found]


def misses(records: Sequence[Record]) -> list[str]:
    """What Tilesight said of each fault that it did not find on its line, and of each twin that it blamed."""
    shown: list[str] = []
    for record in records:
        if "tilesight" not in record:
            continue
        found = verdict(record, "tilesight")
        if found["kind_and_line"] and found["twin_quiet"]:
            continue
        shown.append(f"{name_of(record)}: {', '.join(n for n, is_so in found.items() if is_so)}")
        for side in ("faulty", "repaired"):
            said = record["tilesight"][side]
            shown += [f"    {side} {each['kind']} {each['place']} {each['text']}" for each in said["reports"]]
            shown += [f"    {side} {said['error']}"] if said["error"] else []
    return shown


def failures(records: Sequence[Record], tool: str) -> dict[str, int]:
    """Reasons why repaired twins did not run to their end under a tool, with how many."""
    errors = [record[tool]["repaired"]["error"] for record in records if tool in record]
    return dict(Counter(filter(None, errors)).most_common())
