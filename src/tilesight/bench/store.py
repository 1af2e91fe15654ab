"""Runs in an SQLite file: environment, every number check, every sample."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from tilesight.bench.model import BenchCase, BenchRun, DeviceState, Environment, Measured, Method, NumberCheck, Timing
from tilesight.errors import InputError

VERSION = 2
SCHEMA = """
CREATE TABLE runs (number INTEGER PRIMARY KEY, date TEXT NOT NULL, environment TEXT NOT NULL, notes TEXT NOT NULL);
CREATE TABLE cases (
    id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs, operator TEXT NOT NULL, shape TEXT NOT NULL,
    dtype TEXT NOT NULL, ideal_bytes INTEGER NOT NULL, flops INTEGER
);
CREATE TABLE measured (
    id INTEGER PRIMARY KEY, case_id INTEGER NOT NULL REFERENCES cases, provider TEXT NOT NULL, reason TEXT NOT NULL,
    method TEXT, input_sets INTEGER, kernels INTEGER, peak_bytes INTEGER
);
CREATE TABLE checks (
    measured INTEGER NOT NULL REFERENCES measured, what TEXT NOT NULL, ok INTEGER, max_error REAL, tolerance REAL,
    reason TEXT NOT NULL
);
CREATE TABLE samples (measured INTEGER NOT NULL REFERENCES measured, clock TEXT NOT NULL, seconds REAL NOT NULL);
CREATE INDEX samples_of ON samples (measured);
"""


@contextmanager
def _opened(path: Path, *, must_exist: bool) -> Generator[sqlite3.Connection]:
    """The file, made where it may be.

    Raises: InputError: for a file that is missing, no SQLite file, or of another version
    """
    if must_exist and not path.is_file():
        raise InputError("no such file", where=str(path), expected="a file that tilesight bench --store wrote")
    try:
        with closing(sqlite3.connect(path)) as connection, connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            has_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
            if has_tables and version == 1:
                connection.executescript(
                    f"ALTER TABLE measured ADD peak_bytes INTEGER; PRAGMA user_version = {VERSION};"
                )
            elif has_tables and version != VERSION:
                raise InputError(f"version {version}", where=str(path), expected=f"a bench store of version {VERSION}")
            if not has_tables:
                connection.executescript(f"{SCHEMA}PRAGMA user_version = {VERSION};")
            yield connection
    except sqlite3.Error as error:
        raise InputError(str(error), where=str(path), expected="a file that tilesight bench --store wrote") from error


def save_run(run: BenchRun, path: str | Path) -> BenchRun:
    """The run with its number in the file, which is made where it is not there.

    Raises: InputError: for a file that is no bench store
    """
    with _opened(Path(path), must_exist=False) as connection:
        row = run.environment.date, json.dumps(asdict(run.environment)), json.dumps(run.notes)
        number = connection.execute("INSERT INTO runs (date, environment, notes) VALUES (?, ?, ?)", row).lastrowid
        for case in run.cases:
            _save_case(connection, number, case)
    return replace(run, number=number)


def _save_case(connection: sqlite3.Connection, run: int | None, case: BenchCase) -> None:
    row = run, case.operator, json.dumps(case.shape), case.dtype, case.ideal_bytes, case.flops
    columns = "run, operator, shape, dtype, ideal_bytes, flops"
    case_id = connection.execute(f"INSERT INTO cases ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row).lastrowid
    for each in case.measured:
        _save_measured(connection, case_id, each)


def _save_measured(connection: sqlite3.Connection, case_id: int | None, measured: Measured) -> None:
    timing = measured.timing
    taken = (None,) * 4 if timing is None else (timing.method, timing.input_sets, timing.kernels, timing.peak_bytes)
    columns = "case_id, provider, reason, method, input_sets, kernels, peak_bytes"
    row = (case_id, measured.provider, measured.reason, *taken)
    number = connection.execute(f"INSERT INTO measured ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", row).lastrowid
    checks = [(number, each.what, each.ok, each.max_error, each.tolerance, each.reason) for each in measured.checks]
    connection.executemany("INSERT INTO checks VALUES (?, ?, ?, ?, ?, ?)", checks)
    if timing is not None:
        samples = [(number, "device", seconds) for seconds in timing.device_s]
        samples += [(number, "host", seconds) for seconds in timing.host_s]
        connection.executemany("INSERT INTO samples VALUES (?, ?, ?)", samples)


def load_run(path: str | Path, number: int | None = None) -> BenchRun:
    """A stored run; the last one when no number is given.

    Raises: InputError: for a file that is no bench store, or a number that is not in it
    """
    with _opened(Path(path), must_exist=True) as connection:
        numbers = [row[0] for row in connection.execute("SELECT number FROM runs ORDER BY number")]
        if not numbers:
            raise InputError("no runs", where=str(path), expected="a store with at least one run")
        number = numbers[-1] if number is None else number
        if number not in numbers:
            raise InputError(f"no run {number}", where=str(path), expected=f"one of {', '.join(map(str, numbers))}")
        environment, notes = connection.execute(
            "SELECT environment, notes FROM runs WHERE number = ?", (number,)
        ).fetchone()
        rows = connection.execute(
            "SELECT id, operator, shape, dtype, ideal_bytes, flops FROM cases WHERE run = ? ORDER BY id", (number,)
        ).fetchall()
        cases = tuple(_case(connection, row) for row in rows)
    return BenchRun(_environment(json.loads(environment)), cases, number, tuple(json.loads(notes)))


def _environment(data: dict[str, Any]) -> Environment:
    before, after = (DeviceState(**data.pop(key)) for key in ("before", "after"))
    return Environment(**data, before=before, after=after)


def _case(connection: sqlite3.Connection, row: Sequence[Any]) -> BenchCase:
    case_id, operator, shape, dtype, ideal_bytes, flops = row
    columns = "id, provider, reason, method, input_sets, kernels, peak_bytes"
    query = f"SELECT {columns} FROM measured WHERE case_id = ? ORDER BY id"
    measured = tuple(_measured(connection, each) for each in connection.execute(query, (case_id,)).fetchall())
    return BenchCase(operator, tuple(json.loads(shape)), dtype, ideal_bytes, flops, measured)


def _measured(connection: sqlite3.Connection, row: Sequence[Any]) -> Measured:
    number, provider, reason, method, input_sets, kernels, peak = row
    query = "SELECT what, ok, max_error, tolerance, reason FROM checks WHERE measured = ? ORDER BY rowid"
    checks = tuple(
        NumberCheck(what, None if ok is None else bool(ok), error, tolerance, why)
        for what, ok, error, tolerance, why in connection.execute(query, (number,)).fetchall()
    )
    if method is None:
        return Measured(provider, checks, None, reason)
    samples: dict[str, list[float]] = {"device": [], "host": []}
    query = "SELECT clock, seconds FROM samples WHERE measured = ? ORDER BY rowid"
    for clock, seconds in connection.execute(query, (number,)):
        samples[clock].append(seconds)
    timing = Timing(cast(Method, method), tuple(samples["device"]), tuple(samples["host"]), input_sets, kernels, peak)
    return Measured(provider, checks, timing, reason)


def find_run(text: str, store: str | Path) -> BenchRun:
    """The run that a word names: its number in the store, `FILE` for the last of another store, or `FILE:NUMBER`.

    Raises: InputError: as `load_run`
    """
    if text.isdecimal():
        return load_run(store, int(text))
    file, _, number = text.rpartition(":")
    return load_run(file, int(number)) if file and number.isdecimal() else load_run(text)
