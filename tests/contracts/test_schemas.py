"""The JSON of every command against its schema, and the schemas against the contract."""

from __future__ import annotations

import json
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry, Resource

import tilesight.cli
from tests.bench.runs import sample_run
from tests.cli.stubs import stand_in
from tests.report import samples
from tilesight.bench.statistics import compare_runs
from tilesight.cli.app import COMMANDS, app
from tilesight.report.serialize import to_dict, traces_to_dict

FOLDER = Path(tilesight.cli.__file__).parent / "schemas"
SCHEMAS: dict[str, Any] = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
REGISTRY: Any = Registry().with_resources(  # pyright: ignore[reportUnknownMemberType]
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)


def validate(command: str, data: Any) -> None:
    Draft202012Validator(SCHEMAS[command], registry=REGISTRY).validate(json.loads(json.dumps(data)))


def data_of(command: str) -> list[Any]:
    if command == "trace":
        return [traces_to_dict([samples.trace()]), traces_to_dict([samples.trace(), samples.broken_trace()])]
    records = {
        "observe": (samples.observation(), samples.attention()),
        "compare": (samples.comparison(), samples.wrong_comparison()),
        "run": (samples.script_run(),),
        "check": (samples.check(),),
        "bench": (sample_run(),),
    }
    return [to_dict(record) for record in records[command]]


def test_two_bench_runs_fit() -> None:
    validate("bench_diff", to_dict(compare_runs(sample_run(), sample_run())))


def test_every_command_has_a_schema_that_is_one() -> None:
    assert set(SCHEMAS) - {"observe_diff", "bench_diff"} == set(COMMANDS)
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("command", ["observe", "trace", "compare", "run", "check", "bench"])
def test_the_data_of_every_command_fits(command: str) -> None:
    for data in data_of(command):
        validate(command, data)


# The keys that the command-line contract names, as paths; [] stands for the first item of a list.
CONTRACT = {
    "observe": """target torch triton graph.ops breaks kernels[].name kernels[].kind kernels[].ops kernels[].source
        kernels[].source_lines kernels[].parts.program_id kernels[].parts.load kernels[].parts.store
        kernels[].parts.mask kernels[].grid kernels[].config kernels[].bytes.requested kernels[].bytes.touched
        kernels[].bytes.dram kernels[].flops kernels[].registers kernels[].spills kernels[].shared_bytes
        kernels[].occupancy kernels[].predicted_us ledger.eager_bytes ledger.compiled_bytes ledger.ideal_bytes
        ledger.round_trips not_fused[].a not_fused[].b not_fused[].reason not_fused[].bytes compile.cold_s
        compile.warm_s compile.cache""",
    "trace": """kernel grid programs loads[].line loads[].tensor loads[].lanes loads[].masked_lanes loads[].bytes
        stores[].line stores[].tensor stores[].lanes stores[].masked_lanes stores[].bytes bytes.requested bytes.touched
        bytes.dram findings[].kind findings[].file findings[].line findings[].programs findings[].tensor
        findings[].message findings[].hint findings[].level findings[].page""",
    "check": """cases[].shape cases[].dtype cases[].strides cases[].ok cases[].error cases[].tolerance
        findings[].kind findings[].file findings[].line findings[].message findings[].hint findings[].level
        findings[].page""",
    "run": """launches[].kernel launches[].findings regions[].kernels exit""",
    "compare": """providers.eager.ok providers.compiled.max_error providers.hand.bytes providers.hand.round_trips
        providers.hand.predicted_us providers.hand.measured_us providers.hand.roofline_share ideal_bytes""",
}
PATHS = [(command, path) for command, paths in CONTRACT.items() for path in paths.split()]


def without(data: Any, path: str) -> Any:
    """A copy of the data that lacks the key at the end of the path; KeyError when it was not there."""
    changed = deepcopy(data)
    place = changed
    *way, last = path.replace("[]", ".[]").split(".")
    for step in way:
        place = place[0] if step == "[]" else place[step]
    del place[last]
    return changed


@pytest.mark.parametrize(("command", "path"), PATHS)
def test_a_key_of_the_contract_is_there_and_its_schema_misses_it(command: str, path: str) -> None:
    data = data_of(command)[-1]
    with pytest.raises(ValidationError):
        validate(command, without(data, path))


def test_the_doctor_fits_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.CompletedProcess([], 0, json.dumps({"cuda": "13.0", "gpus": ["NVIDIA H200"]}), "")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: answer)  # pyright: ignore[reportUnknownLambdaType]
    validate("doctor", json.loads(CliRunner().invoke(app, ["doctor", "--json", "-"]).stdout))


@pytest.mark.parametrize(
    ("command", "returned"),
    [
        ("observe", samples.attention()),
        ("trace", [samples.broken_trace()]),
        ("compare", samples.wrong_comparison()),
        ("run", samples.script_run()),
        ("check", samples.check()),
    ],
)
def test_what_a_command_prints_fits(monkeypatch: pytest.MonkeyPatch, command: str, returned: Any) -> None:
    stand_in(monkeypatch, command, lambda: returned)
    validate(command, json.loads(CliRunner().invoke(app, [command, "--json", "-", "f.py"]).stdout))
