"""The sanitizer's yardstick counts as it says, and what it recorded is of the corpus as it stands."""

# pyright: basic

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.yardsticks import sanitizer, sanitizer_child
from benchmarks.yardsticks.sanitizer_tally import merge, misses, tally, verdict
from tests.contracts.sources import ROOT
from tests.corpus.catalogue import ALL

APART = """
import json, os, time
from benchmarks.yardsticks.sanitizer_child import run_apart

def fails(): print("about to fail"); raise ValueError("no luck")
def ends(): print("said"); return {"reports": [1]}

works = (ends, fails, os.abort, lambda: time.sleep(60), lambda: os._exit(3), lambda: {"error": "x" * 200_000})
print(json.dumps([run_apart(work, 20 if work is not works[3] else 0.2) for work in works]))
"""
TILELENS = """
\x1b[1m\x1b[93m🚨 ILLEGAL MEMORY ACCESS DETECTED 🚨\x1b[0m
\x1b[1m\x1b[96m━━━ Code Context ━━━\x1b[0m
  \x1b[95mFile:\x1b[0m /somewhere/kernels.py
  \x1b[95mFunction:\x1b[0m tail
  \x1b[95mLine 23:\x1b[0m
"""


def said(*reports: tuple[str, str], ending: str = "ended", **more: object) -> dict[str, object]:
    told = [{"kind": kind, "place": place, "level": "error", "text": ""} for kind, place in reports]
    return {"ending": ending, "error": "", "reports": told, "seconds": 0.0, **more}


def answered(tool: str, faulty: dict[str, object], repaired: dict[str, object] | None = None, name: str = "a"):
    answer = {"lines": ["race.py:4", "race.py:5"], "faulty": faulty, "repaired": repaired or said()}
    return {"kind": "race", "name": name, "shape": "row", tool: answer}


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([("race", "race.py:5")], (True, True, True)),
        ([("race", "race.py:6")], (False, True, True)),
        ([("race", "other.py:5")], (False, True, True)),
        ([("alias", "race.py:5")], (False, False, True)),
        ([("alias", "race.py:5"), ("race", "race.py:6")], (False, True, True)),
        ([("", ":0")], (False, False, True)),
        ([], (False, False, False)),
    ],
)
def test_tilesight_is_held_to_kind_and_line(reports: list[tuple[str, str]], expected: tuple[bool, ...]) -> None:
    got = verdict(answered("tilesight", said(*reports)), "tilesight")
    assert (got["kind_and_line"], got["kind"], got["anything"]) == expected


def test_a_note_finds_nothing_and_still_disturbs_a_twin() -> None:
    noted = said(("race", "race.py:5"))
    noted["reports"][0]["level"] = "note"  # type: ignore[index]
    assert set(verdict(answered("tilesight", noted), "tilesight").items()) >= {("anything", False)}
    assert not verdict(answered("tilesight", said(), noted), "tilesight")["twin_quiet"]


@pytest.mark.parametrize(
    ("faulty", "repaired", "expected"),
    [
        (said(("", "race.py:4")), said(), (True, True, False, True, False)),
        (said(("", "race.py:9")), said(("", "race.py:9")), (True, False, False, False, False)),
        (said(ending="raised"), said(), (False, False, True, True, False)),
        (said(ending="raised"), said(ending="raised"), (False, False, False, False, True)),
    ],
)
def test_tilelens_is_taken_at_its_reports(faulty: object, repaired: object, expected: tuple[bool, ...]) -> None:
    got = verdict(answered("tilelens", faulty, repaired), "tilelens")  # type: ignore[arg-type]
    assert (got["reported"], got["on_line"], got["raised"], got["twin_quiet"], got["not_run"]) == expected


@pytest.mark.parametrize(
    ("faulty", "repaired", "expected"),
    [
        (said(ending="died"), said(numbers_right=True), (True, False, True)),
        (said(numbers_right=False), said(numbers_right=True), (False, True, True)),
        (said(numbers_right=False), said(numbers_right=False), (False, False, True)),
        (said(ending="raised"), said(ending="raised"), (False, False, False)),
        (said(ending="not finished"), said(), (False, False, True)),
    ],
)
def test_the_interpreter_finds_what_stops_it(faulty: object, repaired: object, expected: tuple[bool, ...]) -> None:
    got = verdict(answered("interpreter", faulty, repaired), "interpreter")  # type: ignore[arg-type]
    assert (got["raised"], got["numbers_wrong"], got["twin_quiet"]) == expected


def test_counts_are_of_the_pairs_that_a_tool_was_tried_on() -> None:
    records = [answered("tilesight", said(("race", "race.py:4"))), answered("tilelens", said(), name="b")]
    counted = tally(records)
    assert counted["totals"]["tilesight"] == {"pairs": 1, "kind_and_line": 1, "kind": 1, "anything": 1, "twin_quiet": 1}
    assert counted["totals"]["tilelens"]["pairs"] == 1
    assert counted["totals"]["interpreter"] == {"pairs": 0}
    assert counted["by_kind"] == {"race": counted["totals"]}
    assert "-" in sanitizer.show(records)


def test_newer_answers_replace_older_ones_tool_by_tool() -> None:
    old = [answered("tilesight", said()), answered("tilelens", said()), answered("tilesight", said(), name="gone")]
    new = [answered("tilesight", said(("race", "race.py:4")))]
    merged = merge(old, new, [("race", "a"), ("race", "never tried")])
    assert [(each["name"], sorted(each.keys() & {"tilesight", "tilelens"})) for each in merged] == [
        ("a", ["tilelens", "tilesight"])
    ]
    assert merged[0]["tilesight"]["faulty"]["reports"]


def test_a_tool_is_held_to_the_lines_of_its_own_time() -> None:
    older = answered("tilesight", said(("race", "race.py:4")))
    newer = answered("tilelens", said(("", "race.py:14")))
    newer["tilelens"]["lines"] = ["race.py:14"]
    (merged,) = merge([older], [newer], [("race", "a")])
    assert verdict(merged, "tilesight")["kind_and_line"]
    assert verdict(merged, "tilelens")["on_line"]


def test_a_miss_is_shown_with_what_was_said_instead() -> None:
    missed = answered("tilesight", said(("alias", "race.py:9")))
    assert misses([missed, answered("tilesight", said(("race", "race.py:4")))]) == [
        "race/a: anything, twin_quiet",
        "    faulty alias race.py:9 ",
    ]


def test_a_launch_apart_ends_as_it_ends() -> None:
    done = subprocess.run([sys.executable, "-c", APART], env=sanitizer.environment_of("tilesight"), capture_output=True)
    ended, raised, aborted, late, left, long = json.loads(done.stdout)
    assert (ended["ending"], ended["reports"], ended["printed"]) == ("ended", [1], "said\n")
    assert (raised["ending"], raised["error"], raised["printed"]) == (
        "raised",
        "ValueError: no luck",
        "about to fail\n",
    )
    assert (aborted["ending"], aborted["error"]) == ("died", "killed by SIGABRT")
    assert (late["ending"], late["error"]) == ("not finished", "not finished after 0.2 s")
    assert (left["ending"], left["error"]) == ("died", "exit code 3")
    assert len(long["error"]) == 200_000


def test_a_report_of_tilelens_is_read() -> None:
    printed = sanitizer_child.COLOUR.sub("", TILELENS)
    left = {"ending": "raised", "error": "SystemExit: 1", "reports": [], "printed": printed}
    got = sanitizer_child.reported_by_tilelens(left)
    assert (got["ending"], [each["place"] for each in got["reports"]]) == ("ended", ["kernels.py:23"])
    failed = {**left, "error": "NotImplementedError: atomic_cas", "printed": ""}
    assert sanitizer_child.reported_by_tilelens(failed)["ending"] == "raised"


def test_the_interpreter_is_asked_and_answers(tmp_path: Path) -> None:
    """exp without the maximum: torch's softmax is finite, the faulty kernel's numbers are not."""
    (chosen, *_) = [seeded for seeded in ALL if seeded.kind == "nan-origin"]
    command = [*sanitizer.command_of("interpreter"), "interpreter", str(tmp_path / "answers"), "60", str(chosen)]
    subprocess.run(command, cwd=ROOT, env=sanitizer.environment_of("interpreter"), check=True)
    versions, record = map(json.loads, (tmp_path / "answers").read_text().splitlines())
    assert set(versions["versions"]) == {"torch", "triton", "numpy"}
    assert (record["kind"], record["name"]) == (chosen.kind, chosen.name)
    assert (record["faulty"]["numbers_right"], record["repaired"]["numbers_right"]) == (False, True)


def test_tilelens_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="pip install tilelens"):
        sanitizer.command_of("tilelens")


def test_what_is_recorded_is_the_corpus_under_three_tools() -> None:
    record = json.loads(sanitizer.STORE.read_text())
    assert [(each["kind"], each["name"]) for each in record["pairs"]] == [(each.kind, each.name) for each in ALL]
    assert all(set(sanitizer.TOOLS) <= each.keys() for each in record["pairs"])
    assert {name: record[name] for name in ("by_kind", "totals")} == tally(record["pairs"])
