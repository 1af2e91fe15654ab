"""What a report of a check shows."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.report import samples
from tilesight.report.catalogue import Catalogue
from tilesight.report.html import page
from tilesight.report.terminal import report_text
from tilesight.report.texts import short_paths
from tilesight.report.view_check import check_view
from tilesight.roads.model import Check, CheckedCase


def test_shapes_stand_against_dtypes() -> None:
    shapes, layouts, reasons = check_view(Catalogue("en"), samples.check()).matrix
    assert [column.label for column in shapes.columns] == ["shape", "f32", "f16"]
    assert [[cell.text for cell in row] for row in shapes.rows] == [
        ["[0]", "✗ failed", ""],
        ["[1]", "✓ 0 *", ""],
        ["[1024]", "✓ 2.0e-08", "✓ 2.0e-08"],
    ]
    assert layouts.column("layout") == ("x sliced [..., ::2]", "x transposed")
    assert layouts.column("verdict") == ("✗ inf", "– refused")
    assert reasons.column("cases") == ("f32[0]", "f32[1024] x transposed")
    assert reasons.column("why")[1] == "refused: no"


def failing(note: str, *inputs: str) -> list[CheckedCase]:
    return [replace(samples.check().cases[0], inputs=each, note=note.replace("N", each)) for each in inputs]


def test_a_reason_stands_once_whatever_the_sizes_in_it() -> None:
    """Neither a file's line nor a dtype is a size."""
    cases = (
        *failing("failed: a.py:3: N of 1,024 bytes", "97", "1,000", "5", "7"),
        *failing("failed: a.py:4: N of 1,024 bytes", "8"),
        *failing("output 0 is torch.float16", "9"),
        *failing("output 0 is torch.float32", "10"),
    )
    *_, reasons = check_view(Catalogue("en"), replace(samples.check(), cases=cases)).matrix
    assert reasons.column("why") == (
        "failed: a.py:3: 97 of 1,024 bytes",
        "failed: a.py:4: 8 of 1,024 bytes",
        "output 0 is torch.float16",
        "output 0 is torch.float32",
    )
    assert reasons.column("cases") == ("97\n1,000\n5\n… 1 more for the same reason", "8", "9", "10")
    assert reasons.rows[0][0].title == "97; 1,000; 5; 7"


def test_cases_that_hold_have_no_finding() -> None:
    cards = {card.key: (card.value, card.tone) for card in check_view(Catalogue("en"), samples.check()).cards}
    assert cards == {"card_matrix": ("2/5", "bad"), "card_findings": ("2", "bad"), "card_launches": ("5", "plain")}


def test_a_finding_has_its_line_its_case_and_its_level() -> None:
    first, second = check_view(Catalogue("en"), samples.check()).findings
    assert (first.source, first.level) == ("x = tl.load(x_ptr + offsets)", "error")
    assert first.case == "smallest case f32[1]; seen in 4 of 6 cases"
    assert (second.level, second.lanes) == ("warning", "")


def repeated() -> Check:
    """Two findings of one kind, with one of another in between."""
    outside, loose = samples.check().findings
    return replace(samples.check(), findings=(outside, loose, replace(outside, line=20)))


def test_the_first_finding_of_each_kind_names_its_page() -> None:
    shown = check_view(Catalogue("en"), repeated()).findings
    assert [each.more for each in shown] == [
        "tilesight check --explain out-of-bounds",
        "tilesight check --explain precision",
        "",
    ]
    for text in (report_text(repeated()), page(repeated())):
        assert [text.count(f"tilesight check --explain {kind}") for kind in ("out-of-bounds", "precision")] == [1, 1]
    assert "\n    more: tilesight check --explain precision\n" in report_text(repeated())


def test_a_finding_without_lanes_tells_its_programs() -> None:
    slow = replace(samples.check().findings[1], programs=(0, 3), program_count=2)
    (shown,) = check_view(Catalogue("en"), replace(samples.check(), findings=(slow,))).findings
    assert shown.lanes == "programs 0, 3"


def test_a_note_without_a_repair_has_no_line_for_it() -> None:
    note = replace(samples.check().findings[1], hint="", level="note")
    check = replace(samples.check(), findings=(note,))
    assert "Repair" not in report_text(check) and 'class="ts-hint"' not in page(check)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_has_the_matrix_and_both_levels(lang: str) -> None:
    text = page(samples.check(), lang)  # pyright: ignore[reportArgumentType]
    assert re.findall(r'data-section="(\w+)"', text) == ["findings", "matrix", "notes"]
    assert len(re.findall(r'class="ts-finding( ts-level-warning)?"', text)) == 2
    assert "x = tl.load(x_ptr + offsets)" in text


def test_a_check_prints_itself() -> None:
    assert str(samples.check()) == report_text(samples.check())
    assert all(len(line) <= 100 for line in report_text(samples.check()).splitlines())


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("failed: /home/me/a b/vec.py:8: no", "failed: /home/me/a b/vec.py:8: no"),
        ("failed: /home/me/vec.py:8: no", "failed: vec.py:8: no"),
        ("a/b.py and x /c.py", "a/b.py and x c.py"),
    ],
)
def test_paths_are_cut_short(text: str, short: str) -> None:
    assert short_paths(text) == short
