"""Notes of many runs: what is one fact is one note, which counts what it stands for."""

from __future__ import annotations

from tilesight.roads.scaled_notes import Remark, fold

PLACE = ("kernel.py", 7)


def told(*remarks: Remark) -> list[str]:
    return [note.message for note in fold(remarks)]


def looked(size: int, programs: int) -> Remark:
    return Remark(PLACE, "copy", f"with f32[{size}]", reason=f"{programs} of {size // 64} programs looked at")


def test_one_run_is_told_as_it_is() -> None:
    (note,) = fold([looked(640, 5)])
    assert (note.kind, note.level, note.file, note.line) == ("overflow", "note", *PLACE)
    assert note.message == "copy with f32[640]: 5 of 10 programs looked at"


def test_runs_that_differ_in_numbers_are_one_fact_with_a_count() -> None:
    (text,) = told(looked(640, 5), looked(1280, 6), looked(2560, 7), looked(5120, 8))
    assert text == (
        "copy with f32[640]: 5 of 10 programs looked at; with f32[1280]: 6 of 20 programs looked at; and in 2 more runs"
    )


def test_runs_with_the_very_same_reason_are_named_once() -> None:
    stops = [Remark(PLACE, "the launcher stopped", f"with f32[{n}]", "; later", "ValueError") for n in (2, 3, 4)]
    assert told(*stops) == ["the launcher stopped with f32[2]: ValueError; and in 2 more runs; later"]


def test_a_run_that_is_seen_twice_counts_once() -> None:
    assert told(looked(640, 5), looked(640, 5)) == ["copy with f32[640]: 5 of 10 programs looked at"]


def test_other_reasons_lines_and_heads_are_facts_of_their_own() -> None:
    one = Remark(PLACE, "copy was not looked at", "with f32[2]", reason="a grid of 70000 programs")
    others = [
        Remark(PLACE, "copy was not looked at", "with f32[2]", reason="no place"),
        Remark(("kernel.py", 8), "copy was not looked at", "with f32[2]", reason="a grid of 70000 programs"),
        Remark(PLACE, "add was not looked at", "with f32[2]", reason="a grid of 70000 programs"),
    ]
    assert len(told(one, *others)) == 4


def test_a_fact_without_a_run() -> None:
    assert told(Remark(PLACE, "nothing was looked at")) == ["nothing was looked at"]
