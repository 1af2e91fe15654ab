"""What the reports show: the right figures under the right words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report import samples
from tilesight.ledger.model import Bytes
from tilesight.report.catalogue import Lang
from tilesight.report.view import view
from tilesight.report.view_model import ReportView
from tilesight.roads.model import Kernel


def card(shown: ReportView, key: str) -> tuple[str, str, str]:
    found = next(card for card in shown.cards if card.key == key)
    return found.value, found.detail, found.tone


def test_trace_cards() -> None:
    shown = view(samples.trace())
    assert card(shown, "card_programs") == ("98", "grid (98,), 1,024 lanes a tile", "plain")
    assert card(shown, "card_masked") == ("1,056", "of 301,056 lanes in all accesses", "plain")
    assert card(shown, "card_bytes") == ("1.2 MB", "requested; touched 1.2 MB", "plain")
    assert card(shown, "card_findings")[0::2] == ("0", "good")


def test_observation_cards() -> None:
    shown = view(samples.observation())
    assert card(shown, "card_kernels")[:2] == ("1", "1 Triton, 0 extern, from 2 ATen operators")
    assert card(shown, "card_bytes")[:2] == ("1.2 MB", "eager 2.0 MB, ideal 1.2 MB")
    assert card(shown, "card_trips")[:2] == ("1", "eager 1, compiled 0")
    assert card(shown, "card_compile")[:2] == ("1.23 s", "again: 4.5 ms")


def test_unknown_bytes_are_not_measured_and_claim_no_round_trips_removed() -> None:
    shown = view(samples.attention())
    assert card(shown, "card_bytes") == ("not measured yet", "eager not measured yet, ideal 524 kB", "unknown")
    assert "card_trips" not in [each.key for each in shown.cards]
    assert [(bar.key, bar.value, bar.share) for bar in shown.bars] == [
        ("eager", "not measured yet", None),
        ("compiled", "not measured yet", None),
        ("ideal", "524 kB", 1.0),
    ]


def test_a_zero_is_shown_as_zero() -> None:
    moved = Bytes(0, None, None)
    record = replace(samples.trace(), traffic=replace(samples.trace().traffic, bytes=moved))
    bars = view(record).bars
    assert [(bar.value, bar.share) for bar in bars] == [
        ("0 B", 0.0),
        ("not measured yet", None),
        ("not measured yet", None),
    ]


def test_comparison_says_who_is_right_and_what_it_cost() -> None:
    shown = view(samples.comparison())
    assert card(shown, "card_correct")[0::2] == ("3/3", "good")
    assert card(shown, "card_bytes_eager")[:2] == ("2.0 MB", "1.67× ideal")
    assert card(shown, "card_bytes_hand")[:2] == ("1.2 MB", "1.0× ideal")
    assert shown.numerics is not None
    assert shown.numerics.column("provider") == ("eager", "compiled", "hand")
    assert shown.numerics.column("max_error") == ("5.9e-08",) * 3
    assert shown.numerics.column("round_trips") == ("1", "0", "0")
    assert shown.numerics.caption == "not measured yet: DRAM, predicted, measured, of roofline"


def test_wrong_numbers_are_bad() -> None:
    shown = view(samples.wrong_comparison())
    assert card(shown, "card_correct")[0::2] == ("2/3", "bad")
    assert shown.numerics is not None
    assert [row[1].tone for row in shown.numerics.rows] == ["good", "good", "bad"]
    assert shown.numerics.column("max_error")[2] == "nan"


def test_bars_share_the_longest() -> None:
    assert [(bar.key, bar.value, bar.share) for bar in view(samples.comparison()).bars] == [
        ("eager", "2.0 MB", 1.0),
        ("compiled", "1.2 MB", 0.6),
        ("hand", "1.2 MB", 0.6),
        ("ideal", "1.2 MB", 0.6),
    ]


def test_round_trips_are_named() -> None:
    trips = view(samples.observation()).trips
    assert trips is not None
    assert [tuple(cell.text for cell in row) for row in trips.rows] == [
        ("eager", "add", "800 kB", "aten.add", "aten.relu")
    ]


def test_accesses_by_line_with_a_total() -> None:
    (table,) = view(samples.trace()).accesses
    assert table.column("line") == ("18", "19", "20", "")
    assert table.column("masked") == ("352", "352", "352", "1,056")
    assert table.column("requested") == ("400 kB", "400 kB", "400 kB", "1.2 MB")
    assert "out_of_bounds" not in [column.key for column in table.columns]


def test_out_of_bounds_lanes_get_their_column() -> None:
    (table,) = view(samples.broken_trace()).accesses
    assert table.column("out_of_bounds") == ("", "", "352", "352")


def test_findings_say_where_and_how_to_repair() -> None:
    (finding,) = view(samples.broken_trace()).findings
    assert finding.short_place == "04c_triton_fused_add_relu.py:20"
    assert finding.lanes == "programs 97; lanes 672 to 1023; 352 lanes in all"
    assert finding.hint == "add mask=offsets < n to the store"


@pytest.mark.parametrize(
    ("lanes", "count", "text"),
    [((3, 3), 1, "programs 97; lane 3"), ((3, 3), 5, "programs 97; lane 3; 5 lanes in all")],
)
def test_one_lane_is_one_lane(lanes: tuple[int, int], count: int, text: str) -> None:
    broken = samples.broken_trace()
    one = replace(broken.findings[0], lanes=lanes, lane_count=count)
    (finding,) = view(replace(broken, findings=(one,))).findings
    assert finding.lanes == text


def test_a_finding_in_many_programs_tells_how_many() -> None:
    many = replace(samples.finding(), programs=tuple(range(8)), program_count=98)
    (finding,) = view(replace(samples.broken_trace(), findings=(many,))).findings
    assert finding.lanes.startswith("programs 0, 1, 2, 3, 4, 5, 6, 7, … (98 in all)")


def test_sources_keep_file_numbers_and_mark_the_three_parts() -> None:
    code = view(samples.comparison()).code
    assert code is not None
    (hand,), (generated,) = code.hand, code.generated
    assert (hand.lines[0].number, hand.lines[0].text) == (12, "@triton.jit")
    assert {line.number: line.part for line in hand.lines if line.part} == {
        15: "program_id",
        16: "program_id",
        17: "mask",
        18: "load",
        19: "load",
        20: "store",
    }
    assert generated.lines[generated.folded].text == "@triton.jit"
    assert [line.part for line in generated.lines if line.part] == [
        *("program_id", "program_id", "mask", "program_id", "load", "load", "store")
    ]


def test_a_load_with_its_mask_inside_is_coloured_as_a_load() -> None:
    record = samples.trace()
    parts = replace(record.parts, mask=(6, 7))
    code = view(replace(record, parts=parts)).code
    assert code is not None
    line = code.hand[0].lines[6]
    assert (line.part, line.parts) == ("load", ("load", "mask"))


def test_a_finding_about_the_whole_launch_names_no_program() -> None:
    whole = replace(samples.finding(), programs=(), program_count=1, lanes=(0, 0), lane_count=0)
    (finding,) = view(replace(samples.broken_trace(), findings=(whole,))).findings
    assert finding.lanes == ""


def test_the_line_of_a_finding_is_marked_in_the_source() -> None:
    code = view(samples.broken_trace()).code
    assert code is not None
    assert [line.number for line in code.hand[0].lines if line.finding] == [20]


def test_pairs_link_to_both_sources() -> None:
    code = view(samples.comparison()).code
    assert code is not None
    store = code.pairs[-1]
    anchors = {line.anchor: line.text for source in (*code.hand, *code.generated) for line in source.lines}
    assert store.hand_number == 20
    assert "tl.store(out_ptr + offsets" in anchors[store.hand_link]
    assert "tl.store(out_ptr0" in anchors[store.generated_link]
    compute = next(pair for pair in code.pairs if pair.part == "compute")
    assert (compute.hand, compute.hand_link) == ("", "")


def test_a_kernel_launched_twice_is_shown_once() -> None:
    first = samples.kernel()
    code = view(replace(samples.observation(), kernels=(first, first))).code
    assert code is not None
    assert [source.title for source in code.generated] == [samples.GENERATED_NAME]


def test_extern_calls_have_no_grid_and_no_source() -> None:
    shown = view(samples.attention())
    assert shown.kernels is not None and shown.code is not None
    assert shown.kernels.column("grid") == ("–", "(1024,)", "–")
    assert shown.kernels.column("registers") == ("not measured yet", "40", "not measured yet")
    assert shown.kernels.caption == "not measured yet: requested, touched, DRAM, FLOPs"
    assert [source.title for source in shown.code.generated] == ["triton_per_fused__softmax_0"]


def test_predicted_time_needs_every_kernel() -> None:
    known = replace(samples.kernel(), predicted_us=3.0)
    both = view(replace(samples.observation(), kernels=(known, known)))
    one = view(replace(samples.observation(), kernels=(known, Kernel("mm", "extern", ("aten.mm",)))))
    assert card(both, "card_predicted")[0] == "6.0 µs"
    assert "card_predicted" not in [each.key for each in one.cards]


def test_script_groups_equal_launches_and_keeps_each_finding_once() -> None:
    shown = view(replace(samples.script_run(), launches=(samples.trace(), samples.broken_trace()) * 2))
    assert [child.title for child in shown.children[:2]] == [
        "launch 1: fused_add_relu (×2, all alike)",
        "launch 2: fused_add_relu (×2, all alike)",
    ]
    assert len(shown.findings) == 1
    assert card(shown, "card_launches")[:2] == ("4", "different kernels: 1")


def test_anchors_are_unique_in_a_script_report() -> None:
    children = view(samples.script_run()).children
    sources = [s for child in children if child.code for s in (*child.code.hand, *child.code.generated)]
    anchors = [line.anchor for source in sources for line in source.lines]
    assert len(anchors) == len(set(anchors)) > 0


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", samples.RECORDS)
def test_every_record_has_a_view_in_both_languages(name: str, lang: Lang) -> None:
    shown = view(samples.RECORDS[name], lang)
    assert shown.lang == lang
    assert all(each.label and each.value for each in shown.cards)


def test_a_launch_of_a_generated_kernel_says_who_wrote_it() -> None:
    source = "@triton_heuristics.pointwise(\n)\n@triton.jit\ndef kernel():\n    pass\n"
    code = view(replace(samples.trace(), source=source)).code
    assert code is not None
    assert code.hand == ()
    (generated,) = code.generated
    assert generated.subtitle.startswith("generated by torch.compile · ")
    assert generated.lines[generated.folded].text == "@triton.jit"
