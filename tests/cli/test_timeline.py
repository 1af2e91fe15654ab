"""The timeline in the terminal, the page, the JSON and as a Perfetto file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tests.contracts.test_schemas import validate
from tests.roads.left_behind import LeftBehind, compile_in_folder
from tilesight.cli.app import app

# The Trace Event Format, as far as it is used: what chrome://tracing and Perfetto's importer ask of each event.
EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["ph", "name", "pid", "tid"],
    "properties": {"pid": {"type": "integer"}, "tid": {"type": "integer"}, "name": {"type": "string", "minLength": 1}},
    "oneOf": [
        {
            "properties": {
                "ph": {"const": "X"},
                "ts": {"type": "number", "minimum": 0},
                "dur": {"type": "number", "minimum": 0},
                "cat": {"type": "string"},
                "args": {"type": "object"},
            },
            "required": ["ts", "dur", "cat"],
        },
        {
            "properties": {
                "ph": {"const": "i"},
                "ts": {"type": "number", "minimum": 0},
                "s": {"enum": ["g", "p", "t"]},
                "args": {"type": "object"},
            },
            "required": ["ts", "s"],
        },
        {
            "properties": {
                "ph": {"const": "M"},
                "name": {"enum": ["process_name", "thread_name"]},
                "args": {"type": "object", "required": ["name"]},
            },
            "required": ["args"],
        },
    ],
}
TRACE: dict[str, Any] = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {"type": "array", "minItems": 3, "items": EVENT},
    },
}
SOURCE = "import torch\n\n\ndef f(x):\n    return torch.softmax(x, -1)\n"


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> LeftBehind:
    return compile_in_folder(tmp_path_factory.mktemp("left_behind"))


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return f"{path}:f"


def check_trace(trace: Any) -> list[dict[str, Any]]:
    """Valid, and on one thread blocks lie inside each other or apart; the blocks."""
    Draft202012Validator(TRACE).validate(trace)
    blocks = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    for process in {event["pid"] for event in blocks}:
        open_until: list[float] = []
        for event in (each for each in blocks if each["pid"] == process):
            end = event["ts"] + event["dur"]
            while open_until and open_until[-1] <= event["ts"] + 0.01:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 0.01, event
            open_until.append(end)
    return blocks


def test_an_observation_has_it_everywhere(spec: str, tmp_path: Path) -> None:
    trace, page = tmp_path / "trace.json", tmp_path / "page.html"
    options = ["--inputs", "f32[8,100]", "--perfetto", str(trace), "--html", str(page), "--json", "-"]
    result = CliRunner().invoke(app, ["observe", spec, *options])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    validate("observe", data)
    timeline = data["timeline"]
    assert {"dynamo", "aot", "inductor", "run"} <= set(timeline["phases"])
    assert timeline["phases"]["inductor"] < data["compile"]["cold_s"]
    names = [span["name"] for span in timeline["spans"] if span["depth"] == 0]
    assert names == ["first call", "second call", "kernels on the engine"]
    blocks = check_trace(json.loads(trace.read_text()))
    assert [block["name"] for block in blocks] == [span["name"] for span in timeline["spans"]]
    html = page.read_text()
    assert 'class="ts-timeline"' in html and "ts-phase-inductor" in html and "<title>first call: " in html
    assert "ui.perfetto.dev" in result.stderr


def test_the_terminal_has_a_line_of_phases(spec: str) -> None:
    result = CliRunner().invoke(app, ["observe", spec, "--inputs", "f32[8,100]", "--lang", "en"])
    text = result.stdout[result.stdout.index("\nCompilation") :]
    assert "Dynamo " in text and "AOTAutograd " in text and "Inductor " in text
    assert "Triton and C++ compilers not run: ended at the generated code" in " ".join(text.split())


def test_a_scripts_calls_and_runs_are_in_it(tmp_path: Path) -> None:
    """Compiled at the first call, run twice, and the backward graph that comes when it is asked for."""
    script, trace = tmp_path / "train.py", tmp_path / "trace.json"
    script.write_text(
        "import torch\nf = torch.compile(lambda x: torch.sin(x) * 2)\nx = torch.randn(100, requires_grad=True)\n"
        "for _ in range(5):\n    f(x).sum().backward()\n"
    )
    result = CliRunner().invoke(app, ["run", "--perfetto", str(trace), "--json", "-", str(script)])
    assert result.exit_code == 0, result.output
    (region,) = json.loads(result.stdout)["regions"]
    outer = [span["name"] for span in region["timeline"]["spans"] if span["depth"] == 0]
    assert outer[0] == "first call" and outer.count("second call") == 1
    runs = [span for span in region["timeline"]["spans"] if span["name"] == "kernels on the engine"]
    assert len(runs) == 4  # forward and backward, twice each: a loop is not written down in full
    check_trace(json.loads(trace.read_text()))


def test_a_log_tells_its_compilers_and_caches(left_behind: LeftBehind, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    result = CliRunner().invoke(
        app, ["observe", str(left_behind.log.parent), "--perfetto", str(trace), "--json", "-", "--lang", "en"]
    )
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    validate("observe", data)
    timelines = [region["timeline"] for region in data["regions"]]
    assert any(timeline["phases"].get("kernels", 0) > 0 for timeline in timelines)  # C++ was compiled there
    states = {(each["cache"], each["state"]) for timeline in timelines for each in timeline["caches"]}
    assert ("Inductor's graph cache", "miss") in states
    blocks = check_trace(json.loads(trace.read_text()))
    assert {block["pid"] for block in blocks} == set(range(1, len(timelines) + 1))


def test_what_holds_no_times_says_so(left_behind: LeftBehind, tmp_path: Path) -> None:
    path = left_behind.output_code("0_inference_0")
    result = CliRunner().invoke(app, ["observe", str(path), "--perfetto", str(tmp_path / "trace.json")])
    assert result.exit_code == 2 and "--perfetto: no timeline" in result.stderr
    folder = CliRunner().invoke(app, ["observe", str(path), "--perfetto", str(tmp_path)])
    assert folder.exit_code == 2 and "is no file" in folder.stderr
