"""Models that torch.compile cannot take, whole or in part: one sentence where they fail, and the rest shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.contracts.test_schemas import validate
from tilesight.cli.app import app

SOURCE = """
import torch
from torch._inductor.lowering import register_lowering

TABLE = torch.ones(8, 8)


@torch.library.custom_op("tilesight_bad_models::refused", mutates_args=())
def refused(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@refused.register_fake
def _(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.tilesight_bad_models.refused.default, type_promotion_kind=None)
def _(x):
    raise NotImplementedError("no lowering of refused for this layout")


@torch.library.custom_op("tilesight_bad_models::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def breaks_at_each_step(x):
    for number in range(3):
        x = torch.relu(x) + number
        torch._dynamo.graph_break()
    return x * 2


def breaks_between(x):
    x = torch.relu(x)
    torch._dynamo.graph_break()
    x = torch.sin(x)
    torch._dynamo.graph_break()
    return torch.exp(x)


def reads_a_value(x):
    y = torch.relu(x)
    if y.sum() > 0:
        return y + 1
    return y - 1


def refused_after_a_graph(x):
    x = torch.relu(x) * 2
    torch._dynamo.graph_break()
    return refused(x) + 1


def refused_alone(x):
    return refused(torch.sin(x))


def shape_of_data(x):
    return torch.nonzero(x) * 2


def made_on_the_cpu(x):
    return x + torch.ones(8, device="cpu")


def found_on_the_cpu(x):
    return x @ TABLE


def no_fake(x):
    return without_fake(x) + 1


def fine(x):
    return x + 1


def example_inputs():
    return "f32[8,8]"
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bad") / "bad_models.py"
    path.write_text(SOURCE)
    return path


def line_of(text: str) -> int:
    return [str(line) for line in SOURCE.splitlines()].index(text) + 1


def observe(file: Path, name: str, *options: str) -> Result:
    return CliRunner().invoke(app, ["observe", f"{file}:{name}", "--lang", "en", *options])


def data_of(result: Result) -> dict[str, Any]:
    data = json.loads(result.stdout)
    validate("observe", data)
    return data


def test_a_model_that_breaks_between_its_operators_is_shown_graph_by_graph(file: Path) -> None:
    result = observe(file, "breaks_between", "--json", "-")
    assert result.exit_code == 0, result.output
    data = data_of(result)
    assert [kernel["kind"] for kernel in data["kernels"]] == ["triton"] * 3
    at = [line_of("    torch._dynamo.graph_break()"), line_of("    x = torch.sin(x)") + 1]
    assert [each["source"].rpartition(":")[2] for each in data["breaks"]] == [str(line) for line in at]


def test_a_model_that_dynamo_gives_up_as_a_whole_says_why_and_keeps_the_eager_road(file: Path) -> None:
    result = observe(file, "breaks_at_each_step", "--json", "-")
    assert result.exit_code == 0, result.output
    data = data_of(result)
    assert data["kernels"] == [] and data["output_code"] == []
    (given_up,) = data["breaks"]
    assert given_up["source"] == f"{file}:{line_of('        torch._dynamo.graph_break()')}"
    assert given_up["reason"].startswith("breaks_at_each_step runs in eager mode as a whole: ")
    assert "made no graph of it" in " ".join(data["notes"])
    assert data["ledger"]["eager_bytes"] == 3 * 4 * 64 * 4 + 2 * 64 * 4 and data["ledger"]["compiled_bytes"] is None
    text = observe(file, "breaks_at_each_step").stdout
    assert "not measured yet" in text and "graph breaks       1" in " ".join(text.split("\n"))


def test_what_was_compiled_before_a_value_is_read_is_shown(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = observe(file, "reads_a_value", "--json", "-", "--html", str(page))
    assert result.exit_code == 2
    data = data_of(result)
    assert [kernel["kind"] for kernel in data["kernels"]] == ["triton"]
    (failure,) = data["failures"]
    assert failure["source"] == f"{file}:{line_of('    if y.sum() > 0:')}"
    assert "reads a tensor's value" in failure["reason"]
    assert data["ledger"]["compiled_bytes"] is None and any("compiled bytes are not known" in n for n in data["notes"])
    assert 'data-section="not_compiled"' in page.read_text() and "reads a tensor" in page.read_text()
    told = [line for line in result.stderr.splitlines() if "the call ended here" in line]
    assert len(told) == 1 and told[0].startswith(f"tilesight: {failure['source']}: ")


def test_a_graph_that_inductor_refuses_is_named_and_the_others_stand(file: Path) -> None:
    result = observe(file, "refused_after_a_graph", "--json", "-")
    assert result.exit_code == 2
    data = data_of(result)
    assert [kernel["kind"] for kernel in data["kernels"]] == ["triton"]  # relu and product before the break
    (failure,) = data["failures"]
    assert failure["source"] == f"{file}:{line_of('    return refused(x) + 1')}"
    assert (
        failure["reason"].startswith("not compiled: ") and "no lowering of refused for this layout" in failure["reason"]
    )
    assert any("refused" in op["target"] for op in data["graph"]["fx"])  # Dynamo's graph of it is there
    assert data["ledger"]["eager_bytes"] is not None


def test_a_model_that_inductor_refuses_altogether_still_has_its_graph(file: Path) -> None:
    result = observe(file, "refused_alone")
    assert result.exit_code == 2 and "Traceback" not in result.output
    text = " ".join(result.stdout.split())
    assert "Not compiled" in text and "no lowering of refused for this layout" in text
    assert result.stderr.count("\n") == 1 and "no lowering of refused for this layout" in result.stderr


@pytest.mark.parametrize(
    ("name", "line", "parts"),
    [
        ("made_on_the_cpu", '    return x + torch.ones(8, device="cpu")', ["two devices meet", "device=x.device"]),
        ("found_on_the_cpu", "    return x @ TABLE", ["two devices meet: cuda:0 and cpu"]),
        ("shape_of_data", "    return torch.nonzero(x) * 2", ["aten.nonzero.default returns depends on data"]),
        ("no_fake", "    return without_fake(x) + 1", ["no fake impl registered", "register_fake"]),
    ],
)  # fmt: skip
def test_what_cannot_be_traced_at_all_is_one_sentence_with_its_line(
    file: Path, name: str, line: str, parts: list[str]
) -> None:
    result = observe(file, name)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1 and "Traceback" not in result.output
    assert f"bad_models.py:{line_of(line)}: " in result.stderr
    for part in parts:
        assert part in result.stderr


def test_inputs_on_another_device_are_taken_to_the_target() -> None:
    """Only shape, dtype and strides of an input count, wherever it lies."""
    import torch

    import tilesight

    def fine(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    places = [torch.ones(8, 8), torch.ones(8, 8, device="meta")]
    codes = [tilesight.observe(fine, x).kernels[0].source for x in places]
    assert codes[0] == codes[1]


def test_a_function_that_is_whole_has_no_failures(file: Path) -> None:
    data = data_of(observe(file, "fine", "--json", "-"))
    assert data["failures"] == [] and data["ledger"]["compiled_bytes"] == 2 * 64 * 4


def test_a_dependency_that_a_script_lacks_ends_its_run_in_one_sentence(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nimport a_package_that_nobody_has\n")
    result = CliRunner().invoke(app, ["run", str(script), "--lang", "en"])
    assert result.exit_code == 2
    told = [line for line in result.stderr.splitlines() if "a_package_that_nobody_has" in line]
    assert len(told) == 1 and "train.py:2: ModuleNotFoundError" in told[0]
    assert "install a_package_that_nobody_has beside tilesight" in told[0]


def test_what_a_script_compiled_before_it_raised_is_shown(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nprint(torch.compile(lambda x: torch.sin(x) * 2)(torch.ones(8)).shape)\n"
        "from a_package_that_nobody_has import train\n"
    )
    result = CliRunner().invoke(app, ["run", "--json", "-", str(script)])
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    validate("run", data)
    assert data["exit"] == 2 and len(data["regions"]) == 1 and len(data["launches"]) == 1
    (note,) = data["notes"]
    assert note.startswith("the script ended early: ") and "train.py:3: ModuleNotFoundError" in note
    assert "train.py:3: ModuleNotFoundError" in result.stderr
    traced = CliRunner().invoke(app, ["trace", str(script)])
    assert traced.exit_code == 2 and "train.py:3: ModuleNotFoundError" in traced.stderr
