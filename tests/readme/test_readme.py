"""The READMEs' and the guide's commands run, print what is quoted, and name what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.lessons.commands import Command, Runner, command_of
from tests.lessons.pages import GUIDE, PAGES, README, ROOT, Transcript, blocks_of, missing_lines, transcripts_of

NOT_RUN_HERE = ("make demo", "make test")
"""They build an environment of their own; continuous integration runs them."""

TRANSCRIPTS = [each for page in README.values() for each in transcripts_of(page)]
RUN_HERE = [each for each in TRANSCRIPTS if not each.command.text.startswith(NOT_RUN_HERE)]
MOST_LINES = 150

every_readme = pytest.mark.parametrize("lang", README)


@pytest.mark.parametrize("transcript", RUN_HERE, ids=lambda each: each.name)
def test_command_prints_what_the_page_quotes(transcript: Transcript, runner: Runner) -> None:
    done = runner.result(command_of(transcript))
    assert done.code == 0, done.output[-2000:] + done.errors[-2000:]
    assert "Warning" not in done.output + done.errors
    for quoted in transcript.outputs:
        assert missing_lines(quoted.text, done.output) == [], f"quoted at line {quoted.line}, printed:\n{done.output}"


def test_commands_that_are_not_run_are_the_known_ones() -> None:
    left = [line for each in TRANSCRIPTS if each not in RUN_HERE for line in each.command.text.splitlines()]
    assert {line.split("  #")[0].strip() for line in left} == set(NOT_RUN_HERE)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    fenced = "\n".join(block.text for block in blocks_of(page))
    code = "\n".join([fenced, *re.findall(r"`([^`]+)`", page.read_text(encoding="utf-8"))])
    for target in re.findall(r"^make (?:[A-Z_]+=\S+ )*([a-z]\w*)", code, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


@every_readme
def test_readme_begins_with_the_two_commands(lang: str) -> None:
    first = blocks_of(README[lang])[0]
    assert [line.split("  #")[0].strip() for line in first.text.splitlines()] == ["make demo", "make test"]


@every_readme
def test_readme_is_short(lang: str) -> None:
    assert len(README[lang].read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def python_examples(page: Path) -> list[Command]:
    examples = [block.text for block in blocks_of(page) if block.language == "python"]
    return [Command(f"python - <<'END'\n{example}\nEND") for example in examples]


@pytest.mark.parametrize("command", [*python_examples(README["en"]), *python_examples(GUIDE)])
def test_python_example_prints_what_it_says(command: Command, runner: Runner) -> None:
    done = runner.result(command)
    assert done.code == 0, done.errors
    said = re.findall(r"^ *print\(.*\)  # ([\d ]+)", command.text, re.MULTILINE)
    assert said
    assert [line for line in said if line.strip() not in done.output.splitlines()] == []


def test_both_readmes_have_the_same_example() -> None:
    english, chinese = (
        [re.sub(r"  #.*", "", block.text) for block in blocks_of(README[lang]) if block.language == "python"]
        for lang in ("en", "zh")
    )
    assert english == chinese


@every_readme
def test_readme_names_the_versions_of_the_project(lang: str) -> None:
    text = README[lang].read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert project["requires-python"] == ">=3.11,<3.14"
    assert any(need.startswith("torch>=2.11") for need in project["dependencies"])
    assert any(need.startswith("triton>=3.6") for need in project["dependencies"])
    for version in ("3.11", "3.13", "2.11", "3.6", *re.findall(r"^(?:torch|triton)==([\d.]+)", lock, re.MULTILINE)):
        assert version in text, version
