"""Runs come back from the store as they were."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.runs import case, run, sample_run, timed
from tilesight.bench.store import (
    device_samples,
    find_run,
    load_run,
    no_longer_wanted,
    save_run,
    want,
    wanted_of,
)
from tilesight.errors import InputError


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    saved = save_run(replace(sample_run(), number=None), path)
    assert saved.number == 1
    assert load_run(path) == saved == sample_run()


def test_runs_are_found_by_number_and_by_file(tmp_path: Path) -> None:
    path, other = tmp_path / "runs.sqlite", tmp_path / "other.sqlite"
    for note in ("first", "second"):
        save_run(replace(sample_run(), notes=(note,)), path)
    save_run(replace(sample_run(), notes=("third",)), other)
    found = [find_run(text, path).notes[0] for text in ("1", "2", str(path), f"{path}:1", str(other))]
    assert found == ["first", "second", "second", "first", "third"]


def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, newer, missing = tmp_path / "text", tmp_path / "newer", tmp_path / "missing"
    text.write_text("not a database, but long enough to be taken for one")
    with sqlite3.connect(newer) as connection:
        connection.executescript("CREATE TABLE x (y); PRAGMA user_version = 99;")
    connection.close()
    for path, got in ((text, "not a database"), (newer, "version 99"), (missing, "no such file")):
        with pytest.raises(InputError, match=got):
            load_run(path)
    with pytest.raises(InputError, match="not a database"):
        save_run(sample_run(), text)
    assert text.read_text().startswith("not a database") and not missing.exists()


def test_a_store_of_version_1_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    save_run(sample_run(), path)
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "ALTER TABLE measured DROP COLUMN peak_bytes; DROP TABLE wanted; PRAGMA user_version = 1;"
        )
    connection.close()
    timing = load_run(path).cases[0].measured[0].timing
    assert timing is not None and timing.peak_bytes is None
    assert save_run(sample_run(), path).number == 2 and load_run(path, 2) == replace(sample_run(), number=2)


def test_samples_are_the_last_runs_of_the_environments_that_are_meant(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    first, second = sample_run(), run(case(timed("hand", [1e-6]), timed("liger", [2e-6])))
    other = replace(second, environment=replace(second.environment, device="another"))
    for each in (first, second, replace(other, cases=[case(timed("hand", [9.0]))])):
        save_run(replace(each, number=None), path)
    found = device_samples(path, lambda environment: environment.device == "NVIDIA H200")
    assert set(found) == {("softmax", (1000, 2000), "bfloat16"), ("softmax", (10, 200_000), "bfloat16")}
    assert found["softmax", (1000, 2000), "bfloat16"] == {
        "eager": (4e-6, 5e-6, 6e-6), "hand": (1e-6,), "liger": (2e-6,),
    }  # fmt: skip


def test_what_is_wanted_is_noted_once_and_forgotten_when_done(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    softmax, norm = ("softmax", (4, 8), "float32"), ("rms_norm", (2, 3), "bfloat16")
    want(path, "one", [softmax, norm])
    want(path, "one", [softmax])
    want(path, "other", [softmax])
    assert wanted_of(path, "one") == [softmax, norm]
    no_longer_wanted(path, "one", [softmax])
    assert (wanted_of(path, "one"), wanted_of(path, "other")) == ([norm], [softmax])


def test_a_number_that_is_not_there(tmp_path: Path) -> None:
    save_run(sample_run(), tmp_path / "runs")
    with pytest.raises(InputError, match="no run 9; expected one of 1"):
        load_run(tmp_path / "runs", 9)
