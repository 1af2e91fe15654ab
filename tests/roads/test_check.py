"""Checks of cases and launches: what holds, what fails, and that nothing stops the rest."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.kernels import checked, refused
from tilesight import Case, check
from tilesight.capture.numerics import tolerance_of
from tilesight.engine import ExecutionOptions
from tilesight.errors import InputError
from tilesight.roads.check import check_spec
from tilesight.roads.model import Check, CheckedCase

FILE = str(Path(checked.__file__))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrinking ends by its runs, however busy the machine is."""
    monkeypatch.setattr("tilesight.roads.shrink.MOST_SECONDS", 600.0)


def line_of(text: str) -> int:
    lines = Path(FILE).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def named(found: Check, inputs: str, strides: str = "contiguous") -> CheckedCase:
    return next(case for case in found.cases if (case.inputs, case.strides) == (inputs, strides))


def by_ok(found: Check, ok: bool | None) -> list[CheckedCase]:
    return [case for case in found.cases if case.ok is ok]


@pytest.fixture(scope="module")
def right() -> Check:
    return check(checked.RIGHT)


def test_a_right_case_holds_everywhere(right: Check) -> None:
    assert right.ok and right.findings == () and right.smallest_failing == ""
    assert by_ok(right, True) == list(right.cases)
    assert {case.dtype for case in right.cases} == {"f32", "f16", "bf16"}
    assert {case.shape for case in right.cases} >= {((0,),), ((1,),), ((63,),), ((65,),), ((1009,),), ((65_537,),)}
    assert {case.strides for case in right.cases} >= {"x sliced [..., ::2]", "x expanded (stride 0)"}
    assert right.launches == len(right.cases)


def test_errors_are_those_of_the_formula(right: Check) -> None:
    """Doubling is exact: an independent formula in NumPy gives 0 for the same numbers."""
    assert {case.error for case in right.cases} == {0.0}
    assert {case.dtype: case.tolerance for case in right.cases} == {
        name: tolerance_of(dtype)
        for name, dtype in (("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16))
    }


def test_an_error_is_measured_against_float64() -> None:
    """Rounding the sum of a row to bf16 costs what NumPy says it costs."""

    def narrow_sum(x: torch.Tensor) -> torch.Tensor:
        return checked.row_sum(x).bfloat16()

    case = Case(eager=lambda x: x.sum(1), hand=narrow_sum, inputs="f32[6,50]")  # pyright: ignore[reportUnknownMemberType, reportUnknownLambdaType]
    found = named(check(case, shapes="6,50", dtypes="f32"), "f32[6,50]")
    x = torch.randn(6, 50, generator=torch.Generator().manual_seed(0)).numpy()
    exact = x.astype(np.float64).sum(1)
    bits = x.sum(1, dtype=np.float32).view(np.uint32).astype(np.uint64)
    rounded = (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32).astype(np.float64)
    expected = (np.abs(rounded - exact) / (np.abs(exact) + np.sqrt((exact**2).mean()))).max()
    assert found.error == pytest.approx(expected, rel=1e-3)
    assert found.ok is True and found.tolerance == tolerance_of(torch.bfloat16)


def test_a_missing_mask_is_found_once_with_the_smallest_case() -> None:
    found = check(checked.UNMASKED)
    outside = [each for each in found.findings if each.kind == "out-of-bounds"]
    assert {(each.file, each.line, each.case) for each in outside} == {(FILE, line_of("# out of bounds"), "f32[1]")}
    assert len(outside) == 2
    assert found.smallest_failing == "f32[1]"
    assert not found.ok
    assert "out-of-bounds" not in named(found, "f32[64]").kinds
    assert "out-of-bounds" in named(found, "f32[65]").kinds


def test_the_smallest_failing_case_is_shrunk_and_stands_first() -> None:
    found = check(checked.FIRST_BLOCKS)
    expected = checked.BLOCK * checked.HARD_CODED + 1
    assert found.smallest_failing == f"f32[{expected}]"
    assert found.cases[0].inputs == f"f32[{expected}]" and found.cases[0].ok is False
    assert all(case.ok for case in found.cases if case.shape[0][0] < expected)


def test_a_layout_that_is_taken_for_contiguous() -> None:
    found = check(checked.CONTIGUOUS_ONLY)
    (stride,) = [each for each in found.findings if each.kind == "stride"]
    assert (stride.file, stride.tensor, stride.level) == (FILE, "x", "error")
    assert stride.line == line_of("tl.load(x + offsets, mask=mask)")
    assert "x is transposed, with strides (1, 2)" in stride.message
    assert stride.case == found.smallest_failing == "f32[2,2], x transposed"
    assert named(found, "f32[2,2]").ok is True
    assert [each.kind for each in found.findings if each.kind == "out-of-bounds"] == []
    assert all(case.ok for case in found.cases if case.strides == "contiguous")
    assert named(found, "f32[12,20]", "x offset by one element").ok is True


def test_a_layout_of_a_case_that_is_wrong_already_is_blamed_for_what_it_brings_about_alone() -> None:
    def tripled(x: torch.Tensor) -> torch.Tensor:
        return 3 * x

    case = Case(eager=tripled, hand=checked.double_as_if_contiguous, inputs="f32[12,20]")
    found = check(case, shapes="12,20", dtypes="f32")
    (stride,) = [each for each in found.findings if each.kind == "stride"]
    assert stride.message.startswith("within bounds for a contiguous x; when x is ")
    assert stride.message.endswith(", lanes leave the tensor")


def test_a_grid_over_its_limit_is_a_finding_though_it_never_runs() -> None:
    found = check(lambda: refused.launch_grid((1, 1, 70_000)))
    (finding,) = found.findings
    assert (finding.kind, finding.level) == ("unlaunchable", "error")
    assert "70,000 blocks in z" in finding.message
    assert [case.ok for case in found.cases] == [False]


def test_lanes_out_of_bounds_are_told_of_a_launch_that_never_ends() -> None:
    """The bound of the loop lies behind the end of the tensor."""
    found = check(checked.launch_count_from_outside, options=ExecutionOptions(loop_limit=100))
    assert [each.kind for each in found.findings] == ["out-of-bounds"]
    assert "100" in found.cases[0].note and not found.ok


def test_a_refusal_is_neither_right_nor_wrong() -> None:
    found = check(checked.REFUSING)
    assert found.ok
    refused = by_ok(found, None)
    assert {case.dtype for case in refused if case.strides == "contiguous"} == {"f16"}
    assert {case.strides for case in refused if case.dtype == "f32"} == {"x transposed", "x sliced [..., ::2]"}
    assert "the last stride is not 1" in named(found, "f32[6,10]", "x transposed").note


def test_an_input_of_the_case_itself_may_not_be_refused() -> None:
    case = Case(eager=checked.doubled, hand=checked.double_or_refuse, inputs="f16[6,10]")
    own = named(check(case), "f16[6,10]")
    assert own.ok is False and "no half precision" in own.note


def test_a_launcher_that_stumbles_fails_there_and_the_rest_runs() -> None:
    found = check(checked.STUMBLING)
    odd = named(found, "f32[97]")
    assert odd.ok is False and odd.error is None
    assert "failed: " in odd.note and f"{FILE}:{line_of('view(2, -1)')}" in odd.note
    assert named(found, "f32[64]").ok is True


def test_a_loop_that_never_ends_fails_there_and_the_rest_runs() -> None:
    found = check(checked.ENDLESS, shapes="5;7;10", dtypes="f32", options=ExecutionOptions(loop_limit=50))
    assert [named(found, f"f32[{n}]").ok for n in (5, 10)] == [True, True]
    endless = named(found, "f32[7]")
    assert endless.ok is False and f"checked.py:{line_of('while left != 0')}" in endless.note


def test_once_a_loop_has_not_ended_others_are_given_up_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilesight.roads.matrix.ROUNDS_AFTER_ENDLESS", 40)
    found = check(checked.ENDLESS, shapes="7;13;99", dtypes="f32", options=ExecutionOptions(loop_limit=150))
    rounds = {n: re.findall(r"in its (\d+)th round", named(found, f"f32[{n}]").note) for n in (7, 13, 99)}
    assert rounds == {7: ["151"], 13: ["41"], 99: ["151"]}
    notes = [named(found, f"f32[{n}]").note.partition(" (bounded")[2] for n in (7, 13, 99)]
    assert notes == ["", " lower since f32[7] has not ended)", ""]


def test_a_case_over_the_memory_cap_says_so_and_the_rest_runs() -> None:
    found = check(checked.RIGHT, shapes="8;1000", options=ExecutionOptions(memory_cap_bytes=20_000))
    assert named(found, "f32[8]").ok is True
    assert "the memory cap is 20,000 (--memory-cap)" in named(found, "f32[1000]").note
    assert found.smallest_failing == "f32[1000]"


def test_a_case_over_the_memory_cap_is_planned_around_the_blocks_of_its_launcher() -> None:
    case = Case(eager=checked.doubled, hand=checked.double, inputs="f32[100000]")
    found = check(case, dtypes="f32", options=ExecutionOptions(memory_cap_bytes=200_000))
    assert named(found, "f32[100000]").ok is False
    assert all(named(found, f"f32[{n}]").ok for n in (0, 1, 63, 64, 65, 129, 1009))
    assert found.smallest_failing == "f32[100000]"


def outer(x: torch.Tensor) -> torch.Tensor:
    return x[:, None] * x[None, :] * 2


def test_an_output_far_larger_than_the_inputs_is_not_computed_where_the_cap_forbids_it() -> None:
    """8,192 squared in float64 are 512 MiB; the inputs with their copies are 288 KiB."""
    case = Case(eager=outer, hand=outer, inputs="f32[64]")
    options = ExecutionOptions(memory_cap_bytes=2**28)
    asked = named(check(case, shapes="64;8192", dtypes="f32", options=options), "f32[8192]")
    assert asked.ok is False
    assert "would make 536,870,912 bytes" in asked.note and "memory_cap_bytes = 268,435,456" in asked.note
    planned = check(case, dtypes="f32", options=options)
    too_large = [each for each in planned.cases if "would make" in each.note]
    assert too_large and all(each.ok is None for each in too_large)
    assert planned.smallest_failing == "" and named(planned, "f32[64]").ok


def outer_with_large_scratch(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(len(x), len(x), len(x))[0, :, :] * 0 + outer(x)


def test_a_launcher_that_takes_more_than_the_cap_is_stopped_before_it_does() -> None:
    case = Case(eager=outer, hand=outer_with_large_scratch, inputs="f32[16]")
    found = named(
        check(case, shapes="4096", dtypes="f32", options=ExecutionOptions(memory_cap_bytes=2**29)), "f32[4096]"
    )
    assert found.ok is False and found.note.startswith(
        "the launcher: aten.empty.memory_format would make 274,877,906,944"
    )


def nothing(x: torch.Tensor) -> None:
    checked.double(x)


def test_a_side_that_returns_no_tensor_is_named() -> None:
    returns = Case(eager=checked.doubled, hand=nothing, inputs="f32[8]")
    expects = Case(eager=checked.doubled, hand=checked.double, inputs="f32[8]", reference=nothing)
    notes = [check(case, shapes="8", dtypes="f32").cases[0].note for case in (returns, expects)]
    assert notes[0] == "the launcher returned no tensor; expected 1 tensor, as the reference returns"
    assert notes[1] == "the reference returned no tensor; expected one for each that the launcher returns"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (checked.WRONG_SHAPE, "outputs of shapes [(6, 1)]; expected the reference's [(6,)]"),
        (checked.WRONG_DTYPE, "output 0 is torch.float32; expected a dtype like the reference's torch.int64"),
        (checked.WRONG_COUNT, "outputs of shapes [(100,), (100,)]; expected the reference's [(100,)]"),
    ],
)
def test_a_reference_that_disagrees_in_shape_or_dtype(case: Case, message: str) -> None:
    found = check(case, dtypes="f32")
    own = named(found, "f32[100]" if "100" in str(case.inputs) else "f32[6,50]")
    assert own.ok is False and own.error is None and message in own.note
    assert len(found.cases) > 5


def test_a_kernel_that_does_not_compile_says_where() -> None:
    case = Case(eager=lambda x: x * 2, hand=checked.double_endless, inputs="f32[100]")  # pyright: ignore[reportUnknownLambdaType]
    found = check(case, shapes="2097152", dtypes="f32", options=ExecutionOptions(loop_limit=50))
    assert found.cases[0].ok is False
    assert "does not compile" in found.cases[0].note


def test_inputs_from_a_function_keep_their_shape() -> None:
    found = check(checked.FROM_FUNCTION)
    assert {case.shape for case in found.cases} == {((50,),)}
    assert {case.dtype for case in found.cases} == {"f32", "f16", "bf16"}
    assert "--shapes" in found.notes[0] and found.ok
    assert {case.shape for case in check(checked.FROM_FUNCTION, shapes="[7];[9]").cases} == {((7,),), ((9,),)}


def test_the_seed_changes_the_numbers() -> None:
    errors = {check(checked.ROW_SUM, shapes="6,50", dtypes="f32", seed=seed).cases[0].error for seed in (1, 1, 2)}
    assert len(errors) == 2


@pytest.mark.parametrize("value", ["f16", "bf16", "f64"])
def test_given_dtypes_replace_the_planned_ones(value: str) -> None:
    found = check(checked.ROW_SUM, shapes=["6,50", "1,1"], dtypes=[value])
    assert {case.dtype for case in found.cases} == {value}


def test_what_cannot_be_checked() -> None:
    with pytest.raises(InputError, match="no hand-written launcher"):
        check(checked.WITHOUT_HAND)
    with pytest.raises(InputError, match="checked:double takes arguments: x"):
        check(checked.double)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="launched no Triton kernel"):
        check(checked.launch_nothing)
    with pytest.raises(InputError, match="for a launch function"):
        check(checked.launch_right, shapes="7")


def test_a_launch_is_checked_once() -> None:
    found = check(checked.launch_right)
    assert (found.ok, found.cases, found.findings, found.launches) == (True, (), (), 1)
    assert found.subject == "checked:launch_right"


def test_a_launch_that_raises_keeps_what_was_found_before() -> None:
    found = check(checked.launch_and_raise)
    assert "out-of-bounds" in {each.kind for each in found.findings}
    (failed,) = found.cases
    assert failed.ok is False and failed.note.endswith("RuntimeError: told you")
    assert f"{FILE}:{inspect.getsourcelines(checked.launch_and_raise)[1] + 2}" in failed.note


def test_a_spec_names_a_case_or_a_launch() -> None:
    assert check_spec(f"{FILE}:ROW_SUM", shapes="6,50", dtypes="f32").subject == "row sum"
    assert check_spec(f"{FILE}:RIGHT", shapes="8").subject == "checked:RIGHT"
    unmasked = check_spec(f"{FILE}:launch_unmasked")
    assert unmasked.findings[0].source == Path(FILE).read_text().splitlines()[unmasked.findings[0].line - 1].strip()
    with pytest.raises(InputError, match="BLOCK is of type int"):
        check_spec(f"{FILE}:BLOCK")


def test_what_a_larger_size_was_looked_at_is_a_note_of_the_check_and_no_finding() -> None:
    found = check(checked.RIGHT, shapes="64", dtypes="f32", scale_to=2**20)
    assert found.findings == ()
    (note,) = [each for each in found.notes if "programs looked at" in each]
    assert re.match(r"checked\.py:\d+: double_kernel with f32\[", note)
