"""The guide has every option, every JSON key, every target and every tolerance, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
import pytest

from tests.lessons.pages import GUIDE, README, ROOT
from tilesight.capture.numerics import TOLERANCES
from tilesight.cli.app import COMMANDS
from tilesight.cli.edge import EXIT_BAD_INPUT, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_INTERRUPTED
from tilesight.targets import target, target_names

TEXT = GUIDE.read_text(encoding="utf-8")


def properties(schema: Any) -> Iterator[str]:
    """Every property name in a JSON schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from properties(value)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_a_section_with_its_options(name: str) -> None:
    assert f"\n## {name}\n" in TEXT
    command: click.Command = import_module(f"tilesight.cli.{name}").command
    options = [
        option for parameter in command.params if isinstance(parameter, click.Option) for option in parameter.opts
    ]
    assert [option for option in options if f"`{option}" not in TEXT] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_json_keys_are_named(name: str) -> None:
    schema = json.loads((ROOT / "src" / "tilesight" / "cli" / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    keys = list(properties(schema))
    assert keys
    assert [key for key in keys if f"`{key}`" not in TEXT] == []


@pytest.mark.parametrize("lang", README)
def test_readme_names_the_commands(lang: str) -> None:
    named = set(re.findall(r"^\| `tilesight (\w+)", README[lang].read_text(encoding="utf-8"), re.MULTILINE))
    assert named == set(COMMANDS)


def test_targets_are_named() -> None:
    cuda = [name for name in target_names() if target(name).backend == "cuda"]
    (row,) = [line for line in TEXT.splitlines() if line.startswith("| `--target")]
    assert [name for name in re.findall(r"`(\w+)`", row) if name != "doctor"] == cuda


def test_tolerances_are_the_tools() -> None:
    rows = dict(re.findall(r"^\| (\w+) \| ([\d.]+e-\d+) \|$", TEXT, re.MULTILINE))
    assert {name: float(value) for name, value in rows.items()} == TOLERANCES


def test_exit_codes_are_the_tools() -> None:
    rows = re.findall(r"^\| (\d+) \| ", TEXT, re.MULTILINE)
    assert [int(code) for code in rows] == [0, EXIT_FINDINGS, EXIT_BAD_INPUT, EXIT_INTERNAL, EXIT_INTERRUPTED]
