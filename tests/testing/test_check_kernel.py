"""`tilesight.testing`: a check that raises, and the pytest plugin."""

from __future__ import annotations

import math
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.kernels import checked
from tests.report import samples
from tilesight.engine import ExecutionOptions
from tilesight.errors import InputError
from tilesight.testing import check_kernel
from tilesight.testing.kernels import failure_text

pytest_plugins = ["pytester"]

PLUGIN = "tilesight.testing.plugin"
HAS_ENTRY_POINT = any(each.value == PLUGIN for each in metadata.entry_points(group="pytest11"))
ARGUMENTS = () if HAS_ENTRY_POINT else ("-p", PLUGIN)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrinking ends by its runs, however busy the machine is."""
    monkeypatch.setattr("tilesight.roads.shrink.MOST_SECONDS", 600.0)


def test_a_right_kernel_gives_its_check() -> None:
    found = check_kernel(checked.RIGHT, shapes="7;65", dtypes="f32")
    assert found.ok and {case.shape[0] for case in found.cases} == {(7,), (65,)}


def test_a_wrong_kernel_says_what_where_and_how() -> None:
    with pytest.raises(AssertionError) as caught:
        check_kernel(checked.UNMASKED, shapes="65", dtypes=["f32"])
    text = str(caught.value)
    for part in ("checked:double_unmasked: ", "smallest failing case: f32[1]", f"out-of-bounds  {checked.__file__}:",
                 "tl.store(out + offsets, tl.load(x + offsets) * 2)", "repair: mask with offsets < "):  # fmt: skip
        assert part in text


def test_a_launch_may_be_checked() -> None:
    with pytest.raises(AssertionError, match="out-of-bounds"):
        check_kernel(checked.launch_unmasked)


def test_a_kind_may_be_allowed() -> None:
    check_kernel(checked.launch_unmasked, allow={"out-of-bounds"})
    check_kernel(checked.CONTIGUOUS_ONLY, shapes="12,20", dtypes="f32", allow=["stride"])
    with pytest.raises(AssertionError, match="stride"):
        check_kernel(checked.CONTIGUOUS_ONLY, shapes="12,20", dtypes="f32", allow=["precision"])
    with pytest.raises(InputError, match="allow="):
        check_kernel(checked.launch_right, allow=["bounds"])


def test_limits_and_scales_are_handed_on() -> None:
    with pytest.raises(AssertionError, match="in its 31th round"):
        check_kernel(checked.ENDLESS, shapes="7", dtypes="f32", options=ExecutionOptions(loop_limit=30))
    found = check_kernel(checked.ROW_SUM, shapes="6,50", dtypes="f32", target="a100", seed=3, scale_to=2**20)
    scaled = f"f32[{6 * math.ceil(2**20 / (6 * 50))},50]"
    assert found.target == "a100" and found.findings == () and any(scaled in note for note in found.notes)


def test_wrong_numbers_alone_are_a_failure() -> None:
    with pytest.raises(AssertionError, match=r"f32\[300\]: off by .*, tolerance 1e-05"):
        check_kernel(checked.FIRST_BLOCKS, shapes="300", dtypes="f32", allow=["never-written", "grid"])


def test_the_text_of_a_failure() -> None:
    text = failure_text(samples.check())
    assert text.startswith("case:ADD: 2 findings, 2 of 6 cases wrong\nsmallest failing case: f32[0]\n\nout-of-bounds  ")
    assert "f32[1024] x sliced [..., ::2]: off by inf, tolerance 1e-05" in text
    assert "precision" not in failure_text(samples.check(), ["precision"])


KERNEL = Path(checked.__file__).read_text()
TESTS = """
from kernels import RIGHT, UNMASKED
from tilesight.testing import check_kernel

def test_right():
    check_kernel(RIGHT, shapes="7")

def test_wrong():
    check_kernel(UNMASKED, shapes="65", dtypes="f32")

def test_wrong_with_the_fixture(tilesight_check):
    tilesight_check(UNMASKED, shapes="65", dtypes="f32")

def test_right_with_the_fixture(tilesight_check):
    assert tilesight_check(RIGHT, shapes="7").ok
"""


def test_the_plugin_in_a_project_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(kernels=KERNEL, test_kernels=TESTS)
    result = pytester.runpytest_subprocess(*ARGUMENTS, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=2)
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        ['>       check_kernel(UNMASKED, shapes="65", dtypes="f32")', "E *smallest failing case: f32[[]*]"]
    )
    assert text.count("smallest failing case: f32[") >= 2
    assert "site-packages" not in text and "roads/check.py" not in text and "testing/kernels.py" not in text


def test_pytest_starts_without_torch() -> None:
    code = f"import {PLUGIN}, sys; print([m for m in ('torch', 'triton', 'numpy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
