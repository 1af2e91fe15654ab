"""The page of each kind of finding: its kernel has that fault and no other, the repaired one is right and clean."""

# pyright: basic

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import tilesight
from tests.contracts.sources import ROOT
from tilesight.checks.finding import page_of
from tilesight.checks.kinds import KINDS
from tilesight.cli.app import app

MARK = "  # here"
HEADINGS = (
    "Why it goes wrong",
    "A kernel that has it",
    "The repair",
    "When to ignore it",
    "What the check does not see",
)
TOLERANCES = {torch.float32: 2e-5, torch.float16: 1e-3}
"""Relative and absolute, of results near 1; integers are exact."""


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER: Any = load(ROOT / "docs" / "make_finding_pages.py")
PAGES: Path = MAKER.PAGES
every_kind = pytest.mark.parametrize("kind", KINDS)


def text_of(kind: str) -> str:
    return (PAGES / f"{kind}.md").read_text()


@dataclass(frozen=True)
class Checked:
    code: int
    output: str
    data: Any


def check(kind: str, file: str, folder: Path) -> Checked:
    """The page's command on one of its files."""
    MAKER.write_files(text_of(kind), folder)
    name, spec, *options = MAKER.command_of(text_of(kind))
    spec, path = str(folder / spec.replace("wrong.py", file)), folder / "found.json"
    result = CliRunner().invoke(app, [name, spec, *options, "--lang", "en", "--json", str(path)])
    assert result.stderr == ""
    return Checked(result.exit_code, result.stdout, json.loads(path.read_text()))


def marked_line(source: str) -> int:
    (line,) = [number for number, text in enumerate(source.splitlines(), 1) if text.endswith(MARK)]
    return line


def test_every_kind_has_a_page_and_no_other_word_has() -> None:
    assert {path.name for path in PAGES.iterdir()} == {f"{kind}.md" for kind in KINDS}
    assert all((ROOT / "src" / "tilesight" / page_of(kind)).is_file() for kind in KINDS)


@every_kind
def test_a_page_has_its_parts(kind: str) -> None:
    text = text_of(kind)
    assert text.startswith(f"# {kind}\n")
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == HEADINGS
    assert re.search(r"^\*\*Level:\*\* (error|warning)\b.*\.$", text, re.MULTILINE | re.DOTALL)
    assert max(map(len, text.splitlines())) <= 120


@every_kind
def test_the_kernel_has_this_fault_alone_where_the_page_says(kind: str, tmp_path: Path) -> None:
    found = check(kind, "wrong.py", tmp_path)
    faults = [each for each in found.data["findings"] if each["level"] != "note"]
    here = marked_line((tmp_path / "wrong.py").read_text())
    assert found.code == 1
    assert [(each["kind"], each["line"], each["page"]) for each in faults] == [(kind, here, page_of(kind))]
    (level,) = re.findall(r"^\*\*Level:\*\* (\w+)", text_of(kind), re.MULTILINE)
    assert faults[0]["level"] == level
    (_, quoted) = MAKER.PRINTED.search(text_of(kind)).groups()
    assert quoted == MAKER.findings_of(found.output), f"run python docs/make_finding_pages.py {kind}"


@every_kind
def test_the_repaired_kernel_is_clean(kind: str, tmp_path: Path) -> None:
    found = check(kind, "repaired.py", tmp_path)
    assert found.code == 0, found.output
    assert found.data["findings"] == []
    assert all(case["ok"] for case in found.data["cases"])
    assert MARK not in (tmp_path / "repaired.py").read_text()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=1)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    rows = [
        torch.softmax(k[i, :n] @ q[i] * q.shape[1] ** -0.5, dim=0) @ v[i, :n]
        for i, n in enumerate(lengths.long().tolist())
    ]
    return torch.stack(rows)


def causal(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    above = torch.ones(len(q), len(k), dtype=torch.bool).triu(1)
    return (q @ k.T * q.shape[1] ** -0.5).masked_fill(above, float("-inf"))


EXPECTED: dict[str, Callable[..., torch.Tensor]] = {
    "out-of-bounds": lambda gate, up: torch.nn.functional.silu(gate) * up,
    "unmasked-undefined": lambda x: torch.nn.functional.normalize(x),
    "uninitialised-read": lambda param, grad: param - 0.1 * grad - 0.1 * 1.9 * grad,
    "never-written": causal,
    "race": lambda tokens: torch.bincount(tokens, minlength=50),
    "nan-origin": lambda logits: torch.logsumexp(logits, dim=1),
    "precision": lambda a, b: a @ b,
    "non-determinism": lambda grad: grad.sum(0),
    "grid": lambda x, bias: torch.relu(x + bias),
    "alias": rotated,
    "autotune": lambda x, y: y + 0.5 * x,
    "unlaunchable": lambda x, weight, bias: torch.nn.functional.layer_norm(x, (x.shape[1],), weight, bias),
    "all-masked-row": attended,
    "contract": lambda w, scale, x: (w * scale[:, None]) @ x,
}
"""From the page's inputs in float64, integers as they are; the other pages hold a case, which is judged by `check`."""


@pytest.fixture
def engine() -> Iterator[None]:
    tilesight.enable()
    yield
    tilesight.disable()


@pytest.mark.parametrize("kind", EXPECTED)
@pytest.mark.usefixtures("engine")
def test_the_repaired_kernel_gives_what_torch_gives(kind: str, tmp_path: Path) -> None:
    MAKER.write_files(text_of(kind), tmp_path)
    module = load(tmp_path / "repaired.py")
    wide = [x.double() if x.is_floating_point() else x for x in module.inputs()]
    result, expected = module.launch(), EXPECTED[kind](*wide)
    tolerance = TOLERANCES.get(result.dtype, 0.0)
    torch.testing.assert_close(result.double(), expected.double(), rtol=tolerance, atol=tolerance)


def test_pages_without_a_reference_hold_a_case() -> None:
    cases = {kind for kind in KINDS if MAKER.command_of(text_of(kind))[1].endswith(":CASE")}
    assert cases == set(KINDS) - set(EXPECTED)


def test_the_index_has_every_kind_its_sentence_and_its_levels() -> None:
    rows = re.findall(
        r"^\| \[([a-z-]+)\]\((.*?)\) \| (.*?) \| (.*?) \|$", (ROOT / "docs" / "findings.md").read_text(), re.M
    )
    levels = {kind: " ".join(text_of(kind).split("**Level:** ")[1].split(".\n")[0].split()) for kind in KINDS}
    wanted = [(kind, f"../src/tilesight/{page_of(kind)}", what, levels[kind]) for kind, what in KINDS.items()]
    assert rows == wanted
