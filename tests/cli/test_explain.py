"""`tilesight check --explain KIND`."""

from __future__ import annotations

import io

import pytest
from click.testing import CliRunner
from rich.console import Console

from tilesight.checks.kinds import KINDS
from tilesight.cli.app import app
from tilesight.cli.explain import page_text
from tilesight.report import terminal


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_gets_the_page_as_it_is(kind: str) -> None:
    result = CliRunner().invoke(app, ["check", "--explain", kind])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == page_text(kind)
    assert result.stdout.startswith(f"# {kind}\n")


def test_a_terminal_gets_it_set(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=100)
    monkeypatch.setattr(terminal, "default_console", lambda: console)
    assert CliRunner().invoke(app, ["check", "--explain", "race"]).exit_code == 0
    text = file.getvalue()
    assert "tl.atomic_add(count_ptr + token, 1, mask=mask)" in text
    assert "```" not in text and "## " not in text


def test_nothing_is_checked_beside_it() -> None:
    result = CliRunner().invoke(app, ["check", "--explain", "grid", "missing.py:CASE"])
    assert result.exit_code == 0 and result.stdout == page_text("grid")


@pytest.mark.parametrize("kind", ["races", "", "../kinds", "Race"])
def test_another_word_is_one_line(kind: str) -> None:
    result = CliRunner().invoke(app, ["check", "--explain", kind])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f"--explain: {kind!r}; expected one of out-of-bounds, " in result.stderr


def test_without_a_spec_or_a_kind_the_usage_is_told() -> None:
    result = CliRunner().invoke(app, ["check"])
    assert result.exit_code == 2 and "FILE.py:NAME" in result.stderr
