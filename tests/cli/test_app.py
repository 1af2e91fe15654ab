"""The group: help without torch, usage errors in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

import tilesight
from tilesight.cli.app import COMMANDS, app


def test_help_lists_the_commands_in_the_order_of_use() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.stdout.split("Commands:")[1].splitlines() if line.startswith("  ")]
    assert [word for word in listed if word in COMMANDS] == [
        "doctor",
        "observe",
        "run",
        "trace",
        "check",
        "compare",
        "bench",
    ]


def test_without_arguments_help_is_shown() -> None:
    result = CliRunner().invoke(app, [])
    assert (result.exit_code, "Commands:" in result.stdout) == (0, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_the_shared_options(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    options = {"--json", "--debug", "--lang"} | ({"--html"} if command != "doctor" else set())
    assert all(option in result.stdout for option in options)


def test_the_package_runs_as_a_module() -> None:
    run = subprocess.run([sys.executable, "-m", "tilesight", "--version"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"tilesight {tilesight.__version__}\n")


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"tilesight {tilesight.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frob"], "tilesight: No such command 'frob'"),
        (["observe"], "tilesight: Missing argument 'FILE.py:NAME|MODULE:NAME|PATH'"),
        (["observe", "a.py:f", "--nope"], "tilesight: No such option"),
        (["compare", "a.py:C", "--lang", "fr"], "tilesight: Invalid value for '--lang'"),
        (["compare", "a.py:C", "more"], "tilesight: Got unexpected extra argument"),
    ],
)
def test_a_wrong_call_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert "--help" in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["observe", "--help"], ["run", "--help"], ["frob"]])
def test_help_and_usage_errors_do_not_import_torch(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom tilesight.cli.app import app\n"
        f"try:\n    app.main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "sys.exit(bool({'torch', 'triton'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
