"""Exported kernels on a GPU with torch and Triton alone: each file runs, is right and is timed. Needs a CUDA GPU.

python -m pytest tests/gpu/test_exported_files.py -q
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.roads.test_export import FUNCTIONS
from tilesight.roads.export import with_exports
from tilesight.roads.model import Observation
from tilesight.roads.observe import observe

WITHOUT_TILESIGHT = (
    "import sys, runpy; sys.modules['tilesight'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
)


@pytest.mark.parametrize(("function", "inputs", "against"), FUNCTIONS, ids=lambda v: getattr(v, "__name__", ""))
def test_each_file_runs_is_right_and_is_timed(function: object, inputs: str, against: object, tmp_path: Path) -> None:
    assert torch.cuda.is_available(), "this test needs a GPU"
    assert callable(function)
    seen = with_exports(observe(function, inputs))
    assert isinstance(seen, Observation)
    for each in seen.exported:
        if not each.file:
            continue
        path = tmp_path / each.file
        path.write_text(each.text)
        command = [sys.executable, "-c", WITHOUT_TILESIGHT, str(path)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
        print(f"{function.__name__}: {ended.stdout.strip()}")
        assert ended.returncode == 0, f"{each.file}: {ended.stdout}{ended.stderr}"
        assert "right, error" in ended.stdout and " us, " in ended.stdout and "not timed" not in ended.stdout
