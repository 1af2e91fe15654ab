"""The yardstick of right kernels finds what is wrong with a wrong one, counts it, and tells what did not end."""

# pyright: reportArgumentType=false

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from benchmarks.yardsticks.right_case import RightCase, check_right_case
from benchmarks.yardsticks.right_kernels import command_of, parse_arguments
from benchmarks.yardsticks.right_tally import gathered, slow_kernels, table, totals, unfinished
from tilesight.capture.launches import EngineSession, installed_session


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = offsets < n
    tl.store(out + offsets, 2 * tl.load(x + offsets, mask=kept), mask=kept)


def launch(covered: int, limit: int) -> torch.Tensor:
    """Doubles the first `covered` of 1000 numbers, with a mask that lets `limit` of them in."""
    x, out = torch.ones(1000), torch.empty(1000)
    double[(triton.cdiv(covered, 256),)](x, out, limit, BLOCK=256)
    return out


@pytest.fixture
def session() -> Iterator[EngineSession]:
    with EngineSession(is_pinned=True) as made:
        yield made


def record(session: EngineSession, covered: int, limit: int) -> dict[str, Any]:
    case = RightCase("double", lambda: launch(covered, limit))
    return {**check_right_case(case, session, 60), "suite": "liger"}


def test_a_right_kernel_has_no_findings(session: EngineSession) -> None:
    got = record(session, 1000, 1000)
    assert (got["ending"], got["launches"], list(got["kernels"]), got["findings"]) == ("ended", 1, ["double"], [])
    times = got["kernels"]["double"]
    assert all(times[name] > 0 for name in ("plain_s", "checked_s", "compiler_s"))


def test_a_wrong_one_has_them_with_kernel_and_line(session: EngineSession) -> None:
    got = record(session, 1000, 1024)
    line = double.fn.__code__.co_firstlineno + 4
    places = {(each["kind"], each["kernel"], each["line"]) for each in got["findings"] if each["level"] == "error"}
    assert ("out-of-bounds", "double", line) in places


def test_what_is_wrong_with_all_launches_together_counts_too(session: EngineSession) -> None:
    """Three quarters of an output that its caller gets are written."""
    got = record(session, 768, 1000)
    found = {(each["kind"], each["kernel"]) for each in got["findings"]}
    assert ("never-written", "(all launches)") in found


def test_a_case_may_be_for_another_gpu(session: EngineSession) -> None:

    def run() -> torch.Tensor:
        assert installed_session() is not session
        return launch(1000, 1000)

    got = check_right_case(RightCase("double", run, gpu="b200"), session, 60)
    assert (got["ending"], got["error"], got["findings"]) == ("ended", "", [])
    assert installed_session() is session


def test_a_case_that_raises_or_hangs_is_told(session: EngineSession) -> None:
    def refuse() -> None:
        raise ValueError("no such shape")

    failed = check_right_case(RightCase("a", refuse), session, 60)
    hung = check_right_case(RightCase("b", lambda: time.sleep(30)), session, 0.05)
    assert (failed["ending"], failed["error"]) == ("failed", "ValueError: no such shape")
    assert (hung["ending"], hung["error"]) == ("not finished", "not finished after 0.05 s")
    assert unfinished([{**failed, "suite": "liger"}]) == ["liger a: ValueError: no such shape"]


def finding(kind: str, level: str, kernel: str = "k", line: int = 7) -> dict[str, Any]:
    place = {"file": "/somewhere/kernels.py", "line": line, "tensor": "x", "hint": ""}
    return {"kind": kind, "level": level, "kernel": kernel, **place, "message": "see /somewhere/kernels.py"}


def made(suite: str, case: str, *findings: dict[str, Any], checked_s: float = 1.0) -> dict[str, Any]:
    times = {"plain_s": 0.5, "checked_s": checked_s, "compiler_s": 2.0}
    ended = {"suite": suite, "case": case, "ending": "ended", "error": "", "launches": 2}
    return {**ended, "kernels": {"k": times}, "findings": list(findings)}


def test_levels_and_kinds_are_counted_apart() -> None:
    note, warning = finding("contract", "note"), finding("precision", "warning")
    got = totals([made("liger", "a", note, warning), made("liger", "b", note)])
    assert (got["cases"], got["launches"], got["kernels"], got["errors"], got["warnings"], got["notes"]) == (
        *(2, 4, 1),
        *(0, 1, 2),
    )
    assert got["by_kind"] == {"error": {}, "warning": {"precision": 1}, "note": {"contract": 2}}
    assert (got["plain_s"], got["checked_s"], got["compiler_s"]) == (1.0, 2.0, 4.0)
    assert "precision" not in table({"liger": got})


def test_generated_kernels_of_two_functions_are_two() -> None:
    both = [made("inductor", "a"), made("inductor", "b")]
    assert totals(both)["kernels"] == 2


def test_a_finding_is_listed_once_and_the_worst_level_first() -> None:
    note, error = finding("contract", "note"), finding("race", "error", line=9)
    listed = gathered([made("liger", "a", note), made("liger", "b", note, error)])
    assert [(each["kind"], each["place"], each["seen"]) for each in listed] == [
        ("race", "kernels.py:9", 1),
        ("contract", "kernels.py:7", 2),
    ]
    assert listed[0]["message"] == "see kernels.py"


@pytest.mark.parametrize(("checked_s", "is_slow"), [(1.4, False), (1.6, True)])
def test_a_kernel_is_slow_beyond_three_times_the_engine(checked_s: float, is_slow: bool) -> None:
    assert bool(slow_kernels([made("liger", "a", checked_s=checked_s)])) == is_slow


def test_the_command_is_told_without_this_machine_s_folders() -> None:
    options = parse_arguments(["--path", "/here/tutorials", "--functions", "9", "--log", "/here/log", "--limit", "30"])
    told = "python -m benchmarks.yardsticks.right_kernels --path FOLDER --suites liger,lessons --functions 9 --limit 30"
    assert command_of(options, ["liger", "lessons"]) == told
