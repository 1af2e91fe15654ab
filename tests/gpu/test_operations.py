"""Every operation of the language on the engine and on the GPU, bit by bit. Needs an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.gpu.differences import DIGITS, record_difference, worst_ulps
from tests.kernels import blocks, operations
from tilesight.roads.traces import TraceObserver, traced

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"

ELEMENTWISE = operations.elementwise_operations()
BLOCKS = blocks.block_operations()

ALLOWED: dict[str, float] = {}
"""Units in the last place, where more than 2 (f32 and f64) or 1 (narrower) are seen, and why."""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("kernels")
    yield {
        **operations.write_kernels(ELEMENTWISE, folder / "elementwise.py"),
        **{f"block {name}": k for name, k in blocks.write_block_kernels(BLOCKS, folder / "blocks.py").items()},
    }


def on_both(launch: Any, kernel: Any, operation: Any, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    engine = traced(launch, TraceObserver(), kernel, operation, inputs)
    gpu = launch(kernel, operation, [tensor.cuda() for tensor in inputs])
    return engine, gpu.cpu()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str, kernels: dict[str, Any]) -> None:
    operation = ELEMENTWISE[name]
    engine, gpu = on_both(operations.launch, kernels[name], operation, operations.inputs_of(operation))
    ulps = worst_ulps(engine, gpu)
    record_difference("elementwise", name, ulps)
    dtype = operations.DTYPES[operation.output]
    allowed = (2 if dtype in (torch.float32, torch.float64) else 1) if dtype.is_floating_point else 0
    assert ulps <= ALLOWED.get(name, allowed)


def rounding_bound(operation: blocks.BlockOperation, inputs: list[torch.Tensor]) -> float:
    """The most by which two orders of the same sum or product may differ."""
    eps = 2.0 ** -DIGITS[operations.DTYPES[operation.output]]
    largest = [float(tensor.double().abs().max()) for tensor in inputs]
    if operation.name.startswith("dot"):
        return 2 * blocks.SIDE * eps * blocks.SIDE * largest[0] * largest[1]
    return 2 * blocks.SIDE * eps * max(1.0, blocks.SIDE * max(largest))


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str, kernels: dict[str, Any]) -> None:
    operation = BLOCKS[name]
    inputs = blocks.block_inputs(operation)
    engine, gpu = on_both(blocks.launch_block, kernels[f"block {name}"], operation, inputs)
    ulps = worst_ulps(engine, gpu)
    record_difference("blocks", name, ulps)
    if operation.bound == "exact":
        assert ulps == 0
    else:
        assert float((engine.double() - gpu.double()).abs().max()) <= rounding_bound(operation, inputs)
