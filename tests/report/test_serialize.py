"""Records as JSON: the contract's keys, null for what was not measured, nothing JSON can't hold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.report import samples
from tilesight.report.serialize import plain, to_dict, traces_to_dict


@pytest.mark.parametrize("name", samples.RECORDS)
def test_every_record_is_strict_json_in_a_stable_order(name: str) -> None:
    first = json.dumps(to_dict(samples.RECORDS[name]), allow_nan=False)
    assert json.dumps(to_dict(samples.RECORDS[name]), allow_nan=False) == first


def test_trace_separates_loads_and_stores() -> None:
    data: Any = to_dict(samples.trace())
    assert data["kernel"] == "fused_add_relu"
    assert (data["grid"], data["programs"]) == ([98, 1, 1], 98)
    assert [row["tensor"] for row in data["loads"]] == ["x", "y"]
    assert data["stores"] == [
        {
            "line": 20,
            "tensor": "out",
            "lanes": 100_352,
            "masked_lanes": 352,
            "bytes": 400_000,
            "touched": 400_000,
            "out_of_bounds_lanes": 0,
        }
    ]
    assert data["bytes"] == {"requested": 1_200_000, "touched": 1_200_000, "dram": None}


def test_atomics_are_neither_loads_nor_stores() -> None:
    record = samples.trace()
    row = replace(record.traffic.rows[0], kind="atomic")
    data: Any = to_dict(replace(record, traffic=replace(record.traffic, rows=(row,))))
    assert data["loads"] == data["stores"] == []
    assert [each["kind"] for each in data["atomics"]] == ["atomic"]


def test_a_missing_figure_is_null_never_zero() -> None:
    data: Any = to_dict(samples.attention())
    kernel = data["kernels"][0]
    missing = ("flops", "registers", "spills", "shared_bytes", "occupancy", "predicted_us", "grid")
    assert [kernel[key] for key in missing] == [None] * len(missing)
    assert kernel["bytes"] == {"requested": None, "touched": None, "dram": None}


def test_providers_are_keyed_by_name() -> None:
    providers: Any = to_dict(samples.comparison())["providers"]
    assert list(providers) == ["eager", "compiled", "hand"]
    assert providers["eager"]["bytes"]["touched"] == 2_000_000
    assert "name" not in providers["hand"]


def test_nan_becomes_a_text() -> None:
    providers: Any = to_dict(samples.wrong_comparison())["providers"]
    assert providers["hand"]["max_error"] == "nan"


def test_all_launches_of_a_trace_and_all_their_findings() -> None:
    data: Any = traces_to_dict([samples.trace(), samples.broken_trace()])
    assert data["kernel"] == "fused_add_relu"
    assert [len(launch["findings"]) for launch in data["launches"]] == [0, 1]
    assert [(each["kind"], each["page"]) for each in data["findings"]] == [
        ("out-of-bounds", "checks/pages/out-of-bounds.md")
    ]


def test_what_json_has_no_type_for_becomes_its_text() -> None:
    value = {1: (1, 2.5, float("-inf")), "dtype": type, "none": None, "yes": True}
    assert plain(value) == {"1": [1, 2.5, "-inf"], "dtype": "<class 'type'>", "none": None, "yes": True}
