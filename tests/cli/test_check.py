"""`tilesight check`: its options, exit codes and report, with a stand-in and for real."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.stubs import stand_in
from tests.kernels import checked
from tests.report import samples
from tilesight.cli.app import app
from tilesight.cli.check import parse_optional_count
from tilesight.errors import InputError
from tilesight.roads.model import Check

FILE = checked.__file__


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrinking ends by its runs, however busy the machine is."""
    monkeypatch.setattr("tilesight.roads.shrink.MOST_SECONDS", 600.0)


DEFAULTS = {
    "shapes": None,
    "dtypes": None,
    "target": "h200",
    "seed": 0,
    "loop_limit": None,
    "memory_cap_bytes": None,
    "scale_to": None,
}


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["check", *arguments])


def clean() -> Check:
    held = tuple(case for case in samples.check().cases if case.ok and not case.kinds)
    return replace(samples.check(), cases=held, findings=(), smallest_failing="")


def test_defaults_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch, "check", clean)
    assert call("f.py:CASE").exit_code == 0
    assert calls == [(("f.py:CASE",), DEFAULTS)]


def test_options_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch, "check", clean)
    call("f.py:CASE", "--shapes", "7,3;1,1", "--dtypes", "f16", "--target", "a100", "--seed", "4",
         "--loop-limit", "9", "--memory-cap", "2**20", "--scale-to", "2**33")  # fmt: skip
    expected = {
        "shapes": "7,3;1,1",
        "dtypes": "f16",
        "target": "a100",
        "seed": 4,
        "loop_limit": 9,
        "memory_cap_bytes": 2**20,
        "scale_to": 2**33,
    }
    assert calls == [(("f.py:CASE",), expected)]


def failing_case() -> Check:
    return replace(samples.check(), findings=())


def with_warning() -> Check:
    return replace(clean(), findings=samples.check().findings[1:])


def with_note() -> Check:
    return replace(clean(), findings=(replace(samples.check().findings[1], level="note"),))


@pytest.mark.parametrize(
    ("made", "code"), [(samples.check, 1), (failing_case, 1), (with_warning, 1), (with_note, 0), (clean, 0)]
)
def test_the_exit_code_tells_a_fault(monkeypatch: pytest.MonkeyPatch, made: object, code: int) -> None:
    stand_in(monkeypatch, "check", made)  # pyright: ignore[reportArgumentType]
    assert call("f.py:CASE").exit_code == code


def test_the_report_says_first_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "check", samples.check)
    text = call("f.py:CASE", "--lang", "en").stdout
    in_order = [
        "smallest failing case f32[0]", "out-of-bounds", "x = tl.load(x_ptr + offsets)", "mask with offsets < n",
        "precision", "warning  04c_", "[1024]", "✓ 2.0e-08", "✗ inf", "– refused", "the kernel does not compile",
        "Notes",
    ]  # fmt: skip
    places = [text.index(each) for each in in_order]
    assert places == sorted(places)
    assert "✓ 0 *" in text and "/home/me" not in text


def test_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "check", samples.check)
    text = call("f.py:CASE", "--lang", "zh").stdout
    assert "检查器与正确性矩阵" in text and "最小的失败用例 f32[0]" in text and "警告" in text


@pytest.mark.parametrize(
    ("text", "elements"), [(None, None), ("2**33", 2**33), ("8_000", 8000), ("10", 10), (" 2 ** 3 ", 8)]
)
def test_elements_are_read(text: str | None, elements: int | None) -> None:
    assert parse_optional_count(text, "--scale-to", "elements") == elements


@pytest.mark.parametrize("text", ["", "x", "2**", "**3", "0", "-1", "2**99", "9" * 30, "1e9"])
def test_other_counts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--scale-to"):
        parse_optional_count(text, "--scale-to", "elements")


def test_a_case_for_real(tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    result = call(f"{FILE}:UNMASKED", "--shapes", "64;65", "--dtypes", "f32", "--json", "-", "--html", str(html))
    data = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [case["shape"] for case in data["cases"] if case["strides"] == "contiguous"][:2] == [[[1]], [[64]]]
    assert {finding["kind"] for finding in data["findings"]} == {"out-of-bounds"}
    assert data["smallest_failing"] == "f32[1]"
    assert 'data-section="matrix"' in html.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("RIGHT", "--shapes", "x"), "--shapes: cannot read 'x'"),
        (("RIGHT", "--dtypes", "i8"), "--dtypes: unknown dtype 'i8'"),
        (("RIGHT", "--scale-to", "big"), "--scale-to: 'big'"),
        (("RIGHT", "--loop-limit", "0"), "--loop-limit"),
        (("RIGHT", "--memory-cap", "1GB"), "--memory-cap: '1GB'; expected a count of bytes"),
        (("double", "--dtypes", "f32"), "shapes or dtypes for a launch function"),
        (("double",), "checked:double takes arguments: x; expected a function without arguments"),
        (("nothing",), "no 'nothing' in it"),
        (("launch_nothing",), "launched no Triton kernel"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    name, *options = arguments
    result = call(f"{FILE}:{name}", *options)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1 and message in result.stderr


UNINITIALISED = """
import torch
checked.double(torch.empty(100))
"""
FAULTS_OF_EACH_ROAD = """
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + offsets, mask=tl.arange(0, BLOCK) < BLOCK, other=0.0)
    tl.store(x + offsets, 2 * tile, mask=offsets < n)


@triton.jit
def multiply(x, out, N: tl.constexpr):
    rows, columns = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tile = tl.load(x + rows * N + columns)
    tl.store(out + rows * N + columns, tl.dot(tile, tile, input_precision="ieee"))


def launch():
    scale[(2,)](torch.ones(128), 128, BLOCK=64)
    x = torch.ones(256, 256)
    out = torch.empty(256, 256)
    multiply[(1,)](x, out, N=256)
    return out


if __name__ == "__main__":
    launch()
"""


def run_script(path: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    result = CliRunner().invoke(app, ["run", *options, "--json", "-", str(path)])
    launches = json.loads(result.stdout)["launches"]
    return result.exit_code, [finding for launch in launches for finding in launch["findings"]]


def test_run_with_check_finds_every_kind(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(Path(FILE).parent)!r})\nimport checked\n{UNINITIALISED}")
    assert run_script(script) == (0, [])
    code, findings = run_script(script, "--check")
    assert code == 1 and {finding["kind"] for finding in findings} >= {"uninitialised-read"}


def test_run_with_check_finds_what_check_finds(tmp_path: Path) -> None:
    """A mask that is always true, and a block that no H200 has the shared memory for, in both roads."""
    script = tmp_path / "roads.py"
    script.write_text(FAULTS_OF_EACH_ROAD)
    _, findings = run_script(script, "--check")
    checked = json.loads(call(f"{script}:launch", "--json", "-").stdout)["findings"]
    in_run, in_check = ({(each["kind"], each["line"]) for each in found} for found in (findings, checked))
    assert in_run == in_check
    assert {kind for kind, _ in in_run} >= {"contract", "unlaunchable"}


def test_run_with_check_hears_the_launches_of_a_script_that_traces_itself(tmp_path: Path) -> None:
    script = tmp_path / "traces.py"
    head = FAULTS_OF_EACH_ROAD.partition("def launch")[0]
    script.write_text(f"{head}import tilesight\ntilesight.trace(scale[(2,)], torch.ones(128), 128, BLOCK=64)\n")
    _, findings = run_script(script, "--check")
    assert {finding["kind"] for finding in findings} >= {"contract"}
