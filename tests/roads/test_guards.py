"""Graph breaks, guards and recompilations of functions that are observed, and of scripts that are run."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from torch import Tensor

import tilesight
from tilesight.report.view import view

SCRIPT = """
import torch


@torch.compile
def scaled(x, factor):
    return torch.relu(x) * factor


for size in (64, 64, 65):
    scaled(torch.randn(size), 2.0)
"""


def printing(x: Tensor) -> Tensor:
    y = x.sin()
    print("between")
    return y.cos()


def test_a_break_has_the_users_line_and_dynamos_explanation() -> None:
    seen = tilesight.observe(printing, "f32[64]")
    (found,) = seen.breaks
    assert found.source == f"{__file__}:{inspect.getsourcelines(printing)[1] + 2}"
    assert "print" in found.reason and ": " in found.reason and "\n" not in found.reason


def test_guards_name_the_inputs_and_are_listed_once() -> None:
    seen = tilesight.observe(lambda x: x + 1, "f32[64,3]")
    (match,) = [guard for guard in seen.guards if guard.startswith("TENSOR_MATCH")]
    assert "size=[64, 3]" in match and "torch.float32" in match
    assert len(set(seen.guards)) == len(seen.guards) and seen.recompiles == ()


def test_what_a_users_line_brings_about_stands_first() -> None:
    shown = view(tilesight.observe(printing, "f32[64]"), "en").guards
    assert shown is not None
    ambient = ["_dynamo/" in text or "# " not in text for text in shown.column("guard")]
    assert ambient == sorted(ambient) and not all(ambient)


def test_dynamic_shapes_guard_no_size() -> None:
    fixed = tilesight.observe(lambda x: x + 1, "f32[64]")
    dynamic = tilesight.observe(lambda x: x + 1, "f32[64]", dynamic=True)
    assert any("size=[64]" in guard for guard in fixed.guards)
    assert not any("size=[64]" in guard for guard in dynamic.guards)


def test_a_script_that_compiles_again_says_which_guard_failed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "tilesight", "run", "--json", "-", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["regions"]
    assert first["recompiles"] == []
    (reason,) = second["recompiles"]
    assert "expected 64, actual 65" in reason and "'x'" in reason


def test_a_global_that_changes_between_the_calls_is_told(monkeypatch: Any) -> None:
    monkeypatch.setitem(globals(), "FACTOR", 1)

    def stepping(x: Tensor) -> Tensor:
        y = x * FACTOR
        globals()["FACTOR"] += 1
        return y

    seen = tilesight.observe(stepping, "f32[64]")
    assert any("FACTOR" in reason for reason in seen.recompiles)
    assert "compiled again" in (seen.compile.cache or "")


FACTOR = 1
