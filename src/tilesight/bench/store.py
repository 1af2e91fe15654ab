"""Runs in an SQLite file: environment, every number check, every sample."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from tilesight.bench.model import BenchCase, BenchRun, DeviceState, Environment, Measured, Method, NumberCheck, Timing
from tilesight.errors import InputError

STORE = "tilesight-bench.sqlite"
"""Where runs are kept when nothing else is said."""
VERSION = 3
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
WANTED = """
CREATE TABLE wanted (
    device TEXT NOT NULL, operator TEXT NOT NULL, shape TEXT NOT NULL, dtype TEXT NOT NULL,
    UNIQUE (device, operator, shape, dtype)
);
"""
STEPS = {1: "ALTER TABLE measured ADD peak_bytes INTEGER;", 2: WANTED}
"""From each version to the next."""


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
            if has_tables and version not in (*STEPS, VERSION):
                raise InputError(f"version {version}", where=str(path), expected=f"a bench store of version {VERSION}")
            steps = [STEPS[each] for each in range(version, VERSION)] if has_tables else [SCHEMA, WANTED]
            if steps:
                connection.executescript(f"{''.join(steps)}PRAGMA user_version = {VERSION};")
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


def device_samples(
    path: str | Path, is_meant: Callable[[Environment], bool]
) -> dict[tuple[str, tuple[int, ...], str], dict[str, tuple[float, ...]]]:
    """(operator, shape, dtype) → provider → its device samples, in seconds, of the last run that has them.

    Args:   is_meant: of a run's environment
    Raises: InputError: as `load_run`
    """
    with _opened(Path(path), must_exist=True) as connection:
        rows = connection.execute("SELECT number, environment FROM runs ORDER BY number").fetchall()
    found: dict[tuple[str, tuple[int, ...], str], dict[str, tuple[float, ...]]] = {}
    for number, environment in rows:
        if is_meant(_environment(json.loads(environment))):
            for case in load_run(path, number).cases:
                timed = {each.provider: each.timing.device_s for each in case.measured if each.timing is not None}
                found.setdefault(case.key, {}).update(timed)
    return found


Wanted = tuple[str, tuple[int, ...], str]
"""Operator, shape and dtype."""


def want(path: str | Path, device: str, wanted: Sequence[Wanted]) -> None:
    """Note what is to be measured on a device; what is noted already stays once."""
    rows = [(device, operator, json.dumps(shape), dtype) for operator, shape, dtype in wanted]
    with _opened(Path(path), must_exist=False) as connection:
        connection.executemany("INSERT OR IGNORE INTO wanted VALUES (?, ?, ?, ?)", rows)


def wanted_of(path: str | Path, device: str) -> list[Wanted]:
    """What is to be measured on a device."""
    with _opened(Path(path), must_exist=True) as connection:
        query = "SELECT operator, shape, dtype FROM wanted WHERE device = ? ORDER BY rowid"
        rows = connection.execute(query, (device,)).fetchall()
    return [(operator, tuple(json.loads(shape)), dtype) for operator, shape, dtype in rows]


def no_longer_wanted(path: str | Path, device: str, done: Sequence[Wanted]) -> None:
    """Forget notes whose cases were measured."""
    rows = [(device, operator, json.dumps(shape), dtype) for operator, shape, dtype in done]
    with _opened(Path(path), must_exist=True) as connection:
        query = "DELETE FROM wanted WHERE device = ? AND operator = ? AND shape = ? AND dtype = ?"
        connection.executemany(query, rows)


def find_run(text: str, store: str | Path) -> BenchRun:
    """The run that a word names: its number in the store, `FILE` for the last of another store, or `FILE:NUMBER`.

    Raises: InputError: as `load_run`
    """
    if text.isdecimal():
        return load_run(store, int(text))
    file, _, number = text.rpartition(":")
    return load_run(file, int(number)) if file and number.isdecimal() else load_run(text)
