"""torch.compile in a running script, on the engine: training, graph breaks, mutation, guards, errors."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tilesight
from tilesight.capture.inductor import autograd_device
from tilesight.capture.inductor.on_engine import CompiledOnEngine
from tilesight.capture.inductor.pretend import pretend
from tilesight.capture.numerics import judge
from tilesight.engine import Execution
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Listener
from tilesight.targets import target

H200 = target("h200")


class Launches:
    """The names of the kernels that the engine executed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def launch_begins(self, launch: Launch) -> tuple[Listener, ...]:
        self.names.append(launch.kernel)
        return ()

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Any) -> None:
        return None


@pytest.fixture
def launches() -> Generator[Launches]:
    """torch.compile redirected to the engine for one test."""
    heard = Launches()
    tilesight.enable(compile_for="h200").observers.append(heard)
    yield heard
    tilesight.disable()
    torch._dynamo.reset()


def compiled_on_engine(function: Callable[..., Any], **options: Any) -> CompiledOnEngine:
    compiled: Any = torch.compile(function, **options)
    assert isinstance(compiled, CompiledOnEngine)
    return compiled


def gradients(function: Callable[..., Any], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    leaves = [each.clone().requires_grad_(each.is_floating_point()) for each in inputs]
    out = function(*leaves)
    cotangent = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).reshape(out.shape).to(out.dtype)
    return list(torch.autograd.grad(out, [each for each in leaves if each.requires_grad], cotangent))


def is_as_good_as_eager(function: Callable[..., Any], compiled: Callable[..., Any], inputs: list[torch.Tensor]) -> bool:
    """The gradients lie within the dtype's tolerance of float64, or within twice eager's own error."""
    expected = gradients(function, [each.double() for each in inputs])
    verdict = judge(gradients(compiled, inputs), expected)
    return verdict.max_error <= max(verdict.tolerance, 2 * judge(gradients(function, inputs), expected).max_error)


def layer_norm_gelu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.layer_norm(x, (x.shape[-1],), w, b))


TRAINED: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "layer_norm": (layer_norm_gelu, ((7, 33), (33,), (33,))),
    "softmax": (lambda x: torch.softmax(x, -1), ((5, 100),)),
    "matmul and bias": (lambda x, w, b: torch.tanh(x @ w + b), ((9, 16), (16, 5), (5,))),
    "broadcast": (lambda x, y: x * y, ((4, 1, 6), (3, 1))),
    "gather": (lambda x: x[torch.tensor([0, 2, 2, 1])] * 2, ((3, 10),)),
    "made inside": (lambda x: x * torch.arange(8) + torch.ones(8, device=x.device), ((6, 8),)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", TRAINED)
def test_gradients_are_those_of_float64(name: str, dtype: torch.dtype, launches: Launches) -> None:
    function, shapes = TRAINED[name]
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    assert is_as_good_as_eager(function, compiled_on_engine(function), inputs)
    assert len(launches.names) >= 2


def test_a_model_trains_as_it_does_eagerly(launches: Launches) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(12, 16), torch.nn.LayerNorm(16), torch.nn.ReLU(), torch.nn.Linear(16, 3)
    )
    twin = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.LayerNorm(16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    twin.load_state_dict(model.state_dict())
    x, classes = torch.randn(20, 12), torch.arange(20) % 3
    compiled: Any = torch.compile(model)
    live: Any = compiled.forward
    assert isinstance(compiled, torch.nn.Module)
    assert [*compiled.state_dict()] == [f"_orig_mod.{name}" for name in model.state_dict()]
    for network in (compiled, twin):
        optimizer = torch.optim.SGD([*network.parameters()], lr=0.5)
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(network(x), classes).backward()
            optimizer.step()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    assert live.calls == [1, 3]
    (graph,) = live.graphs
    assert len(graph.regions) == 2  # forward and backward
    assert all(any(call.is_triton for call in region.calls) for region in graph.regions)


def test_both_sides_of_a_graph_break_run(launches: Launches) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return y * 2

    x = torch.randn(100)
    compiled = compiled_on_engine(broken)
    torch.testing.assert_close(compiled(x), broken(x))
    (graph,) = compiled.graphs
    assert (len(graph.regions), len(graph.breaks), len(launches.names)) == (2, 1, 2)


def test_a_value_read_in_between_is_the_tensors(launches: Launches) -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > 0 else x - 1

    compiled = compiled_on_engine(branches)
    for x in (torch.full((10,), 3.0), torch.full((10,), -3.0)):
        torch.testing.assert_close(compiled(x), branches(x))


def test_what_the_function_writes_is_written(launches: Launches) -> None:
    def accumulate(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total.add_(x * 2)
        return total[3:]

    x, total = torch.arange(10.0), torch.ones(10)
    tail = compiled_on_engine(accumulate)(x, total)
    torch.testing.assert_close(total, 1 + 2 * torch.arange(10.0))
    assert tail.data_ptr() == total[3:].data_ptr()


def test_inputs_that_share_memory_are_seen_to_share_it(launches: Launches) -> None:
    def shifted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 10

    base = torch.zeros(8)
    torch.testing.assert_close(compiled_on_engine(shifted)(base[:6], base[2:]), torch.tensor([10.0] * 4 + [0.0] * 2))


def test_sizes_may_be_dynamic(launches: Launches) -> None:
    compiled = compiled_on_engine(layer_norm_gelu, dynamic=True)
    for rows in (5, 9, 14):
        x, w, b = torch.randn(rows, 24), torch.randn(24), torch.randn(24)
        torch.testing.assert_close(compiled(x, w, b), layer_norm_gelu(x, w, b), rtol=1e-5, atol=1e-5)
    assert compiled.calls == [1, 2]


def test_gradients_of_dynamic_sizes_compile_when_they_are_asked_for(launches: Launches) -> None:
    def square_softmax(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * x, -1)

    compiled = compiled_on_engine(square_softmax, dynamic=True)
    for rows in (4, 7):
        x = torch.randn(rows, 30, generator=torch.Generator().manual_seed(rows))
        assert is_as_good_as_eager(square_softmax, compiled, [x])
    assert [len(graph.regions) for graph in compiled.graphs] == [2]


def test_dropout_keeps_its_share_and_its_mask(launches: Launches) -> None:
    x = torch.ones(20_000, requires_grad=True)
    out = compiled_on_engine(lambda x: F.dropout(x, 0.25))(x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert out.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    # binomial: 0.75 ± 6 standard deviations
    assert abs(float((out > 0).float().mean()) - 0.75) < 6 * (0.75 * 0.25 / 20_000) ** 0.5
    torch.testing.assert_close(grad, out.detach())


def test_arguments_may_be_given_by_keyword(launches: Launches) -> None:
    def scaled(x: torch.Tensor, *, by: float = 2.0) -> torch.Tensor:
        return x * by

    torch.testing.assert_close(compiled_on_engine(scaled)(torch.ones(9), by=3.0), torch.full((9,), 3.0))


def test_the_functions_own_error_comes_through(launches: Launches) -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 3:
            raise ValueError("too long")
        return x + 1

    with pytest.raises(ValueError, match="too long"):
        compiled_on_engine(picky)(torch.ones(4))


def test_another_back_end_is_torchs_own_business(launches: Launches) -> None:
    doubled: Any = torch.compile(lambda x: x * 2, backend="eager")
    torch.testing.assert_close(doubled(torch.ones(3)), torch.full((3,), 2.0))
    assert launches.names == []


def test_the_tables_that_are_copied_have_the_functions_that_are_replaced() -> None:
    """Fails when torch moves them: a wrong slot would answer another question."""
    hooks = autograd_device.virtual_slots("ATen/detail/AcceleratorHooksInterface.h", "AcceleratorHooksInterface")
    assert hooks[:5] == ("~AcceleratorHooksInterface",) * 2 + ("isBuilt", "isAvailable", "hasPrimaryContext")
    guard = autograd_device.virtual_slots("c10/core/impl/DeviceGuardImplInterface.h", "DeviceGuardImplInterface")
    assert guard[:6] == ("type", "exchangeDevice", "getDevice", "setDevice", "uncheckedSetDevice", "getStream")
    assert {"record", "block", "queryEvent", "deviceCount", "getDefaultStream"} < set(guard)


def test_autograd_knows_no_gpu_afterwards() -> None:
    before = torch.accelerator.current_accelerator(), torch.accelerator.is_available()
    with pretend(H200):
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert (torch.accelerator.current_accelerator(), torch.accelerator.is_available()) == before
