"""Every command of the course pages runs, and prints what is quoted under it."""

from __future__ import annotations

import pytest

from tests.lessons.commands import Runner, command_of
from tests.lessons.pages import COURSE, Transcript, missing_lines, transcripts_of

TRANSCRIPTS = [each for page in COURSE.values() for each in transcripts_of(page)]
WANTED = (
    "python 04b_triton_vector_add.py",
    "python 04b_triton_vector_add.py --block-size 256",
    "python 04b_triton_vector_add.py --no-mask",
    "python 04c_triton_fused_add_relu.py",
    "python 04c_triton_fused_add_relu.py --op add",
    "python 04_torch_compile_observe.py",
    "TORCH_LOGS=output_code python 04_torch_compile_observe.py 2>&1 | tee dumps/compile.log",
    "grep -n triton dumps/compile.log",
    "python jit_stages.py",
    "python jit_stages.py --n 100001",
)


EXPECTED_REMARKS = ("tilesight: the report is ", 'tilesight: no GPU here: "cuda" is lent ')
"""What the tool says on standard error: where the report lies, and that a lesson's "cuda" is the CPU."""


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_command_prints_what_the_page_quotes(transcript: Transcript, runner: Runner) -> None:
    done = runner.result(command_of(transcript))
    assert done.code == 0, done.output[-2000:] + done.errors[-2000:]
    for quoted in transcript.outputs:
        assert missing_lines(quoted.text, done.output) == [], f"quoted at line {quoted.line}, printed:\n{done.output}"


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_command_warns_of_nothing(transcript: Transcript, runner: Runner) -> None:
    done = runner.result(command_of(transcript))
    said = [line for line in done.errors.splitlines() if not line.startswith(EXPECTED_REMARKS)]
    assert said == []
    assert "Warning" not in done.output


@pytest.mark.parametrize("lang", COURSE)
def test_course_has_the_commands(lang: str) -> None:
    lines = {line for each in transcripts_of(COURSE[lang]) for line in each.command.text.splitlines()}
    assert [command for command in WANTED if command not in lines] == []


def test_missing_lines_sees_what_is_not_printed() -> None:
    assert missing_lines("a  b\n…\nc 1.5 ms", "x\n a b\ny\nc  27.91 ms\n") == []
    assert missing_lines("c\na", "a\nc\n") == ["a"]
    assert missing_lines("98 programs", "391 programs") == ["98 programs"]
