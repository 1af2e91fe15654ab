"""The commands: how they call the roads, what they print and write, their exit codes."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.stubs import stand_in
from tests.report import samples
from tilesight.cli.app import app
from tilesight.errors import InputError
from tilesight.report.serialize import to_dict


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_observe_hands_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch, "observe", samples.observation)
    result = call("observe", "f.py:g", "--inputs", "f32[8]", "--target", "a100", "--mode", "max-autotune", "--dynamic")
    assert result.exit_code == 0
    options = {"inputs": "f32[8]", "target": "a100", "mode": "max-autotune", "backward": False, "dynamic": True}
    assert calls == [(("f.py:g",), options)]


def test_observe_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = stand_in(monkeypatch, "observe", samples.observation)
    call("observe", "f.py:g")
    options = {"inputs": None, "target": "h200", "mode": None, "backward": False, "dynamic": False}
    assert calls == [(("f.py:g",), options)]


def test_compare_and_run_hand_their_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = stand_in(monkeypatch, "compare", samples.comparison)
    ran = stand_in(monkeypatch, "run", samples.script_run)
    call("compare", "f.py:CASE", "--on", "gpu")
    call("run", "--check", "--target", "l40s", "f.py", "--epochs", "3", "-v", "--json", "x")
    assert compared == [(("f.py:CASE",), {"on": "gpu", "target": "h200"})]
    assert ran == [(("f.py", ("--epochs", "3", "-v", "--json", "x")), {"target": "l40s", "check": True})]


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["f.py:launch"], ()),
        (["f.py:launch", "--lang", "zh"], ()),
        (["f.py", "--size", "8", "-n", "x"], ("--size", "8", "-n", "x")),
        (["f.py", "--", "--json", "x"], ("--json", "x")),
    ],
)
def test_trace_takes_its_options_anywhere(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], passed: tuple[str, ...]
) -> None:
    calls = stand_in(monkeypatch, "trace", lambda: [samples.trace()])
    assert call("trace", *arguments).exit_code == 0
    assert calls == [((arguments[0], passed), {"target": "h200"})]


@pytest.mark.parametrize(
    ("command", "returned", "code"),
    [
        ("observe", samples.observation(), 0),
        ("trace", [samples.trace()], 0),
        ("trace", [samples.trace(), samples.broken_trace()], 1),
        ("trace", [], 2),
        ("compare", samples.comparison(), 0),
        ("compare", samples.wrong_comparison(), 1),
        ("compare", replace(samples.comparison(), hand=(samples.broken_trace(),)), 1),
        ("run", replace(samples.script_run(), launches=(samples.trace(),)), 0),
        ("run", samples.script_run(), 1),
        ("run", replace(samples.script_run(), exit=7), 7),
    ],
)
def test_exit_codes(monkeypatch: pytest.MonkeyPatch, command: str, returned: Any, code: int) -> None:
    stand_in(monkeypatch, command, lambda: returned)
    assert call(command, "f.py").exit_code == code


def test_an_unjudged_provider_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = samples.comparison()
    unknown = replace(comparison.providers[1], ok=None, max_error=None, note="not executed")
    stand_in(monkeypatch, "compare", lambda: replace(comparison, providers=(comparison.providers[0], unknown)))
    assert call("compare", "f.py:C").exit_code == 0


@pytest.mark.parametrize(
    ("command", "record"),
    [("observe", samples.observation()), ("compare", samples.comparison()), ("run", samples.script_run())],
)
def test_json_dash_prints_json_alone(monkeypatch: pytest.MonkeyPatch, command: str, record: Any) -> None:
    def noisy() -> Any:
        print("a print of the user's script")
        return record

    stand_in(monkeypatch, command, noisy)
    result = call(command, "--json", "-", "f.py")
    assert json.loads(result.stdout) == json.loads(json.dumps(to_dict(record)))
    assert "a print of the user's script" in result.stderr


def test_trace_json_holds_every_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "trace", lambda: [samples.trace(), samples.broken_trace()])
    data = json.loads(call("trace", "f.py", "--json", "-").stdout)
    assert data["programs"] == 98
    assert len(data["launches"]) == 2
    assert len(data["findings"]) == 1


def test_a_child_process_does_not_disturb_the_json(capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def noisy() -> Any:
        subprocess.run(["echo", "from a child"], check=True)
        return samples.observation()

    stand_in(monkeypatch, "observe", noisy)
    with pytest.raises(SystemExit) as stopped:
        app.main(["observe", "f.py:g", "--json", "-"])
    out, err = capfd.readouterr()
    assert stopped.value.code == 0
    assert json.loads(out)["target"] == "h200"
    assert "from a child" in err


def test_the_scripts_own_output_stays_on_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy() -> Any:
        print("allclose True")
        return samples.script_run()

    stand_in(monkeypatch, "run", noisy)
    result = call("run", "f.py")
    assert result.stdout.startswith("allclose True\n")
    assert "launch 1: fused_add_relu" in result.stdout


def test_files_are_written_and_the_report_is_printed_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, "compare", samples.comparison)
    data, page = tmp_path / "out" / "c.json", tmp_path / "c.html"
    result = call("compare", "f.py:C", "--json", str(data), "--html", str(page), "--lang", "zh")
    assert result.exit_code == 0
    assert json.loads(data.read_text(encoding="utf-8"))["ideal_bytes"] == 1_200_000
    assert '<html lang="zh-CN">' in page.read_text(encoding="utf-8")
    assert "两条路并排看" in result.stdout
    assert result.stderr == f"tilesight: the report is {page}\n"


def test_the_language_comes_from_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "compare", samples.comparison)
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "两条路并排看" in call("compare", "f.py:C").stdout


def test_no_progress_and_no_colour_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "observe", samples.observation)
    result = call("observe", "f.py:g")
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("command", ["observe", "trace", "compare", "run"])
def test_a_tilesight_error_is_one_line(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def fail() -> Any:
        raise InputError("no such\nname", where="f.py", expected="one of add", next_step="look again")

    stand_in(monkeypatch, command, fail)
    result = call(command, "f.py")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "tilesight: f.py: no such name; expected one of add; look again\n"


def test_a_fault_of_our_own_is_one_line_and_exit_code_3(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "observe", lambda: {}["missing"])
    result = call("observe", "f.py:g")
    assert result.exit_code == 3
    assert result.stderr == (
        "tilesight: internal error: KeyError: 'missing'; run again with --debug for the traceback\n"
    )


def test_debug_shows_the_traceback_and_keeps_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "observe", lambda: {}["missing"])
    result = call("observe", "f.py:g", "--debug")
    assert result.exit_code == 3
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("tilesight: internal error: KeyError")


def test_an_exception_in_the_users_file_names_its_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def g():\n    return 1 / 0\n")
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    stand_in(monkeypatch, "observe", scope["g"])
    result = call("observe", f"{file}:g")
    assert result.exit_code == 2
    assert result.stderr.startswith("tilesight: mine.py:2: ZeroDivisionError: division by zero; run again with --debug")


def test_a_path_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, "observe", samples.observation)
    (tmp_path / "file").write_text("")
    result = call("observe", "f.py:g", "--html", str(tmp_path / "file" / "report.html"))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "tilesight: " in result.stderr and "file" in result.stderr


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_folder_is_refused_before_the_work_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str
) -> None:
    calls = stand_in(monkeypatch, "observe", samples.observation)
    result = call("observe", "f.py:g", option, str(tmp_path))
    assert result.exit_code == 2
    assert "is a folder" in result.stderr
    assert calls == []


def test_html_to_stdout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "observe", samples.observation)
    assert call("observe", "f.py:g", "--html", "-").exit_code == 2


def test_an_option_that_went_to_the_script_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "run", lambda: replace(samples.script_run(), launches=()))
    result = call("run", "f.py", "--json=x")
    assert result.exit_code == 0
    assert result.stderr == "tilesight: --json=x went to the script; options of tilesight run stand before SCRIPT.py\n"


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> Any:
        raise KeyboardInterrupt

    stand_in(monkeypatch, "observe", interrupt)
    result = call("observe", "f.py:g")
    assert result.exit_code == 130
    assert result.stderr.endswith("tilesight: interrupted\n")
