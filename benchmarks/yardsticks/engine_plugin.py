"""A pytest plugin that makes the engine Triton's device, and writes down how every test ended.

Loaded with `-p engine_plugin`, `--on-engine` for the first and `--outcomes PATH` for the second. The
tests themselves are not touched; they are to be run on CPU tensors.
"""

from __future__ import annotations

import gc
import importlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import tilesight

LONGEST_MESSAGE = 1000


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilesight")
    group.addoption("--on-engine", action="store_true", help="launch Triton's kernels on the engine")
    group.addoption("--sample", type=int, default=0, help="of a test's parametrizations run so many, evenly spaced")
    group.addoption("--outcomes", metavar="PATH", help="write each test's outcome and error, one JSON object a line")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--on-engine"):
        tilesight.enable()
        _declare_tensor_descriptors()
    if config.getoption("--outcomes") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(Path(str(config.getoption("--outcomes")))))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep an evenly spaced sample of each test function's parametrizations, where one is asked for."""
    wanted = int(config.getoption("--sample"))
    if wanted == 0:
        return
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.split("[", 1)[0], []).append(item)
    kept: list[pytest.Item] = []
    for found in functions.values():
        count = min(wanted, len(found))
        kept.extend(found[place * len(found) // count] for place in range(count))
    items[:] = kept


def pytest_collection_finish() -> None:
    """Spare what was imported and collected from the full garbage collection that Triton's tests do after each."""
    gc.freeze()


def _declare_tensor_descriptors() -> None:
    """Let tests of tensor descriptors run: Triton's own list of who has them is CUDA and the interpreter.

    `triton._internal_testing` (seen on 3.6 to 3.8) makes its skip mark while it is imported.
    """
    testing: Any = importlib.import_module("triton._internal_testing")
    testing.supports_tma = lambda byval_only=False: True
    testing.requires_tma = pytest.mark.skipif(False, reason="the engine has tensor descriptors")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the first cause of a failure beside the report, which otherwise holds only its text."""
    report = yield
    if call.excinfo is not None and report.failed:
        error = call.excinfo.value
        while error.__cause__ is not None:
            error = error.__cause__
        report.user_properties.append(("error", f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]))
    return report


class _Outcomes:
    """Writes one record a test, in the process that the tests' workers report to; the last one counts."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid, "error", error=_last_line(report.longreprtext))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        outcome = str(report.outcome)
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if report.skipped else "xpassed"
        if report.failed:
            errors = [str(text) for name, text in report.user_properties if name == "error"]
            self._write(report.nodeid, outcome, error=errors[-1] if errors else _last_line(report.longreprtext))
        elif report.skipped and isinstance(report.longrepr, tuple):
            self._write(report.nodeid, outcome, reason=str(report.longrepr[2]))
        else:
            self._write(report.nodeid, outcome)

    def _write(self, test: str, outcome: str, **more: str) -> None:
        self.file.write(json.dumps({"test": test, "outcome": outcome, **more}) + "\n")
        self.file.flush()

    def pytest_unconfigure(self) -> None:
        self.file.close()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
