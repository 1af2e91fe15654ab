"""Every operation of the corpus gives the same bits at any chunk size and number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.kernels import blocks, operations
from tilesight.capture.launches import EngineSession
from tilesight.engine import ExecutionOptions

ELEMENTWISE = operations.elementwise_operations()
BLOCKS = blocks.block_operations()
ONE_BY_ONE = ExecutionOptions(chunk_programs=1, threads=1)
AT_ONCE = ExecutionOptions(chunk_programs=2, threads=3)


@pytest.fixture(scope="module")
def elementwise(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return operations.write_kernels(ELEMENTWISE, tmp_path_factory.mktemp("kernels") / "elementwise.py")


@pytest.fixture(scope="module")
def block_kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return blocks.write_block_kernels(BLOCKS, tmp_path_factory.mktemp("kernels") / "blocks.py")


def assert_same_in_parts(launch: Callable[[], torch.Tensor], *parts_of: ExecutionOptions) -> None:
    with EngineSession():
        whole = launch()
    for options in parts_of:
        with EngineSession(options=options):
            parts = launch()
        assert torch.equal(whole.view(torch.uint8), parts.view(torch.uint8))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str, elementwise: dict[str, Any]) -> None:
    operation = ELEMENTWISE[name]
    inputs = operations.inputs_of(operation)
    assert_same_in_parts(lambda: operations.launch(elementwise[name], operation, inputs), AT_ONCE)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str, block_kernels: dict[str, Any]) -> None:
    operation = BLOCKS[name]
    inputs = blocks.block_inputs(operation)
    assert_same_in_parts(lambda: blocks.launch_block(block_kernels[name], operation, inputs), ONE_BY_ONE, AT_ONCE)
