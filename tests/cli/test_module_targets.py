"""`package.module:NAME` wherever `FILE.py:NAME` is taken, and what is said when it does not load."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilesight.cli.app import app
from tilesight.cli.edge import describe_failure

PACKAGE = "tilesight_sample_package"
KERNELS = """
import torch
import triton
import triton.language as tl

import tilesight


@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * 2, mask=mask)


def hand(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def twice(x):
    return x * 2


def launch():
    hand(torch.randn(100))


def example_inputs():
    return "f32[100]"


CASE = tilesight.Case(eager=twice, hand=hand, inputs="f32[100]")
NUMBER = 3


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
"""
FILES = {
    "__init__.py": "",
    "kernels.py": KERNELS,
    "needs.py": "import torch\nimport a_package_that_nobody_has\n",
    "through.py": "from . import needs\n",
    "wrong.py": "x = 1\ny = x / 0\n",
    "cut.py": "def f(:\n    pass\n",
    "leaves.py": "raise SystemExit(3)\n",
    "bad_parent/__init__.py": "import another_package_that_nobody_has\n",
    "bad_parent/inside.py": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = tmp_path / PACKAGE
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield root
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (("observe", "twice"), "subject", f"{PACKAGE}.kernels:twice"),
        (("observe", "Model"), "inputs", ["f32[100]"]),
        (("trace", "launch"), "kernel", "double"),
        (("check", "CASE", "--shapes", "100", "--dtypes", "f32"), "ok", True),
        (("compare", "CASE"), "ideal_bytes", 800),
    ],
)
def test_each_command_takes_it(folder: Path, arguments: tuple[str, ...], key: str, value: object) -> None:
    command, name, *options = arguments
    result = run(command, f"{PACKAGE}.kernels:{name}", *options, "--json", "-")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[key] == value


def test_an_installed_module_is_found_too() -> None:
    result = run("observe", "torch.nn.functional:gelu", "--inputs", "f32[100]", "--json", "-")
    assert result.exit_code == 0, result.output
    assert [kernel["kind"] for kernel in json.loads(result.stdout)["kernels"]] == ["triton"]


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        (
            "no_such_package.kernels:f",
            ["no_such_package.kernels:f: no module named 'no_such_package'; "],
        ),
        (f"{PACKAGE}.nothing:f", [f"no module named '{PACKAGE}.nothing'"]),
        (f"{PACKAGE}.nothing.deep:f", [f"no module named '{PACKAGE}.nothing'"]),
        (f"{PACKAGE}.needs:f", ["needs.py:2: ModuleNotFoundError", "install a_package_that_nobody_has beside"]),
        (f"{PACKAGE}.through:f", ["needs.py:2: ModuleNotFoundError", "install a_package_that_nobody_has"]),
        (f"{PACKAGE}.bad_parent.inside:f", ["__init__.py:1: ", "install another_package_that_nobody_has"]),
        (f"{PACKAGE}.wrong:f", ["wrong.py:2: ZeroDivisionError: division by zero; mend"]),
        (f"{PACKAGE}.cut:f", ["cut.py:1: SyntaxError"]),
        (f"{PACKAGE}.leaves:f", ["leaves.py:1: SystemExit: 3"]),
        (f"{PACKAGE}.empty:f", ["is a folder without code"]),
        (f"{PACKAGE}.kernels:twize", ["no 'twize' in it", "expected a name such as twice"]),
        (f"{PACKAGE}.kernels:NUMBER", ["NUMBER is of type int"]),
        (f"{PACKAGE}.kernels", ["no such file", "package.module:NAME"]),
    ],
)
@pytest.mark.parametrize("command", ["observe", "trace", "check", "compare"])
def test_what_does_not_load_is_one_sentence_that_says_why(
    folder: Path, command: str, spec: str, parts: list[str]
) -> None:
    result = run(command, spec)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.output
    for part in parts:
        assert part in result.stderr


def test_a_dependency_that_a_file_lacks_is_named_too(folder: Path) -> None:
    result = run("observe", f"{folder / 'needs.py'}:f")
    assert result.exit_code == 2
    assert "needs.py:2: ModuleNotFoundError" in result.stderr
    assert "install a_package_that_nobody_has beside tilesight" in result.stderr


def test_what_a_modules_code_raises_later_is_told_with_its_line(folder: Path) -> None:
    result = run("check", f"{PACKAGE}.kernels:CASE", "--shapes", "x")
    assert result.exit_code == 2
    module = sys.modules[f"{PACKAGE}.kernels"]
    with pytest.raises(AttributeError) as caught:
        module.hand(None)
    line, code = describe_failure(caught.value, f"{PACKAGE}.kernels:CASE")
    assert code == 2 and line.startswith("kernels.py:")
