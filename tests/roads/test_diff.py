"""`tilesight observe --diff`: what differs between two observations, and that nothing else is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from tests.contracts.test_schemas import validate
from tilesight.cli.app import app
from tilesight.errors import InputError
from tilesight.report.html import page
from tilesight.report.serialize import to_dict
from tilesight.roads.diff import diff_files, diff_graphs
from tilesight.roads.diff_model import ObservationDiff
from tilesight.roads.observe import observe


def before(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def after(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1) + 1


def with_sum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.softmax(x, -1), x.sum(0)


def product_first(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x, -1)


def broken(x: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x, -1)
    print("here")
    return y + 1


@cache
def seen(function: Callable[..., Any], inputs: str = "f32[64,64]") -> dict[str, Any]:
    return to_dict(observe(function, inputs))


def diff(a: Callable[..., Any], b: Callable[..., Any]) -> ObservationDiff:
    return diff_graphs([seen(a)], [seen(b)])


def test_an_observation_does_not_differ_from_itself() -> None:
    same = diff(before, before)
    assert same.is_same and [kernel.status for kernel in same.kernels] == ["same"]
    assert not any(figure.is_changed for figure in same.figures)


def test_compiling_again_makes_no_difference_but_in_time() -> None:
    again = diff_graphs([seen(before)], [to_dict(observe(before, "f32[64,64]"))])
    assert again.is_same
    assert {figure.key for figure in again.figures if figure.is_changed} <= {"cold_s", "warm_s"}


def test_an_edit_shows_as_the_lines_of_the_kernel_that_it_changed() -> None:
    (kernel,) = diff(before, after).kernels
    assert kernel.status == "changed" and "add" in kernel.after and "add" not in kernel.before
    body = [line for line in kernel.source if line[:1] in "+-" and " tmp" in line]
    assert any(line.startswith("+") and " + " in line for line in body)
    assert len(body) < 8  # the lines around it are the same
    (ops,) = [figure for figure in kernel.figures if figure.key == "ops"]
    before_ops, after_ops = (set(str(each).split(", ")) for each in (ops.before, ops.after))
    assert after_ops - before_ops == {"aten.add"} and before_ops - after_ops == set()
    assert {"aten._softmax", "prims.prepare_softmax_online"} <= before_ops  # torch 2.11 names exp and sub too


def test_a_new_kernel_is_added_and_the_old_one_is_the_same() -> None:
    found = diff(before, with_sum)
    assert sorted(kernel.status for kernel in found.kernels) == ["added", "same"]
    lists = {change.key: change for change in found.lists}
    assert lists["operators"].added == ("aten.sum.dim_IntList",) and lists["operators"].removed == ()
    back = diff(with_sum, before)
    assert sorted(kernel.status for kernel in back.kernels) == ["removed", "same"]


def test_kernels_that_are_only_numbered_anew_are_the_same() -> None:
    """An extern call in front moves buffers; the softmax kernel behind it does the same work."""
    found = diff(before, product_first)
    assert (found.kernels[0].after, found.kernels[0].status) == ("mm", "added")
    figures = {figure.key: figure for figure in found.figures}
    assert (figures["extern_calls"].before, figures["extern_calls"].after) == (0, 1)
    (trip,) = next(change.added for change in found.lists if change.key == "round_trips")
    assert trip.startswith("mm → triton_per_fused") and trip.endswith("32,768 B")


def test_a_new_graph_break_is_told_with_its_line() -> None:
    found = diff(after, broken)
    (break_,) = next(change.added for change in found.lists if change.key == "breaks")
    assert break_.startswith("test_diff.py:") and "builtin" in break_
    figures = {figure.key: figure for figure in found.figures}
    assert (figures["graphs"].before, figures["break_count"].after) == (1, 1)


def test_lines_that_an_edit_above_has_moved_are_no_difference() -> None:
    a = json.loads(json.dumps(seen(broken)))
    a["guards"] = ["TENSOR_MATCH: L['x'] is f32[64, 64]  # y = f(x)  # mine.py:7 in f"]
    b = json.loads(json.dumps(a).replace("test_diff.py:", "test_diff.py:1").replace("mine.py:7", "mine.py:9"))
    assert a["breaks"] != b["breaks"] and a["guards"] != b["guards"]
    assert diff_graphs([a], [b]).lists == ()
    b["guards"] = ["TENSOR_MATCH: L['x'] is f32[64, 32]  # y = f(x)  # mine.py:7 in f"]
    (change,) = diff_graphs([a], [b]).lists
    assert (change.key, change.removed, change.added) == ("guards", tuple(a["guards"]), tuple(b["guards"]))


def test_the_json_fits_its_schema_and_the_page_shows_the_diff() -> None:
    found = diff(before, after)
    data = found.to_dict()
    validate("observe_diff", data)
    assert data["same"] is False and data["figures"]["eager_bytes"]["before"] < data["figures"]["eager_bytes"]["after"]
    html = page(found)
    assert "ts-diff-added" in html and "ts-diff-removed" in html
    text = str(found)
    assert "0 of 1 kernels the same" in text and "bytes, eager" in text


def test_longer_metadata_differs_entry_by_entry() -> None:
    a, b = seen(before), json.loads(json.dumps(seen(before)))
    b["kernels"][0]["source"] = b["kernels"][0]["source"].replace("'num_load': 1", "'num_load': 2")
    (kernel,) = diff_graphs([a], [b]).kernels
    changed = [line for line in kernel.source if line.startswith(("+ ", "- "))]
    assert [line[1:].strip() for line in changed] == ["'num_load': 1,", "'num_load': 2,"]


def test_the_command_reads_two_files(tmp_path: Path) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(json.dumps(seen(before)))
    b.write_text(json.dumps(seen(after)))
    page_path = tmp_path / "diff.html"
    result = CliRunner().invoke(app, ["observe", "--diff", str(a), str(b), "--json", "-", "--html", str(page_path)])
    assert result.exit_code == 0, result.output
    validate("observe_diff", json.loads(result.stdout))
    assert "ts-diff-added" in page_path.read_text()


def test_a_scripts_regions_and_a_logs_count_together(tmp_path: Path) -> None:
    """`run --json` and `observe LOG --json` hold several graphs under `regions`."""
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(json.dumps({"regions": [seen(before), seen(with_sum)]}))
    b.write_text(json.dumps({"regions": [seen(with_sum), seen(before)]}))
    found = diff_files(a, b)
    assert found.is_same and {f.key: f.after for f in found.figures}["graphs"] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"target": "h200", "graph"', "no whole JSON: "),
        (b"[1, 2]", "no compiled graph in it"),
        (b'{"target": "h200"}', "no 'graph' in it"),
        (b'{"regions": []}', "no compiled graph in it"),
        (b'{"regions": [1]}', "no 'target' in it"),
        (b"\xff\xfe", "not a text file"),
    ],
)
def test_a_file_that_holds_no_observation_is_refused_in_one_sentence(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        diff_files(path, path)
    assert str(path) in str(refused.value)
    result = CliRunner().invoke(app, ["observe", "--diff", str(path), str(path)])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1


def test_a_diff_stands_alone() -> None:
    result = CliRunner().invoke(app, ["observe", "f.py:g", "--diff", "a.json", "b.json"])
    assert result.exit_code == 2 and "--diff A.json B.json stands alone" in result.stderr


def diff_exit(folder: Path, a: dict[str, Any], b: dict[str, Any], *options: str) -> tuple[int, str]:
    paths = [folder / "a.json", folder / "b.json"]
    for path, data in zip(paths, (a, b), strict=True):
        path.write_text(json.dumps(data))
    result = CliRunner().invoke(app, ["observe", "--diff", *map(str, paths), *options])
    return result.exit_code, result.stderr


def test_more_bytes_or_calls_end_with_1_where_asked(tmp_path: Path) -> None:
    assert diff_exit(tmp_path, seen(before), seen(with_sum)) == (0, "")
    code, told = diff_exit(tmp_path, seen(before), seen(with_sum), "--fail-on-more")
    assert code == 1 and "kernels and library calls: 1 before, 2 now" in told and "compiled bytes: " in told
    assert diff_exit(tmp_path, seen(with_sum), seen(before), "--fail-on-more") == (0, "")
    assert diff_exit(tmp_path, seen(before), seen(before), "--fail-on-more") == (0, "")


def test_more_bytes_alone_and_bytes_that_are_not_known_end_with_1(tmp_path: Path) -> None:
    more, unknown = (json.loads(json.dumps(seen(before))) for _ in range(2))
    bytes_before = more["ledger"]["compiled_bytes"]
    more["ledger"]["compiled_bytes"] += 1
    unknown["ledger"]["compiled_bytes"] = None
    told = f"compiled bytes: {bytes_before:,} before"
    assert diff_exit(tmp_path, seen(before), more, "--fail-on-more") == (
        1,
        f"tilesight: {told}, {bytes_before + 1:,} now\n",
    )
    assert diff_exit(tmp_path, seen(before), unknown, "--fail-on-more") == (1, f"tilesight: {told}, not known now\n")


def test_fail_on_more_asks_for_a_diff() -> None:
    result = CliRunner().invoke(app, ["observe", "f.py:g", "--fail-on-more"])
    assert result.exit_code == 2 and "--fail-on-more goes with --diff" in result.stderr
