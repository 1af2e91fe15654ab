"""What the tests of torch's own files share: one real run of torch.compile, and generated code for an H200."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.roads.left_behind import LeftBehind, compile_in_folder
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inputs import parse_inputs
from tilesight.targets import target


@pytest.fixture(scope="session")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> LeftBehind:
    return compile_in_folder(tmp_path_factory.mktemp("left_behind"))


def block(x: torch.Tensor, w: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    h = torch.relu(x @ w) * 2
    return F.softmax(h, dim=-1)[rows] + 1, h.sum(-1)


@pytest.fixture(scope="session")
def h200_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """output_code.py of a small block, generated for an H200: a product, a reduction, an indexed load."""
    graph = capture(block, parse_inputs("f32[64,32],f32[32,48],i64[16]<64"), target("h200"))
    path = tmp_path_factory.mktemp("h200") / "output_code.py"
    path.write_text(graph.regions[0].code)
    return path
