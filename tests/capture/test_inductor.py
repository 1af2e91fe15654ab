"""torch.compile for a GPU that is not here: what it wrote, read back and run on the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tilesight.capture.inductor.graph import CompiledGraph
from tilesight.capture.inductor.on_engine import CompiledOnEngine, capture
from tilesight.capture.inductor.pretend import pretend
from tilesight.capture.inputs import parse_inputs, real_inputs
from tilesight.capture.numerics import judge, reference_outputs
from tilesight.errors import InputError, UnsupportedError
from tilesight.roads.compiled import execute_compiled
from tilesight.targets import target

H200 = target("h200")


def add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + y)


FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "add_relu": (add_relu, "f32[10007],f32[10007]"),
    "softmax": (lambda x: torch.softmax(x, -1), "bf16[37,1000]"),
    "long softmax": (lambda x: torch.softmax(x, -1), "f32[3,5000]"),
    "rmsnorm": (lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-6), "bf16[33,1024],bf16[1024]"),
    "gelu_mlp": (lambda x, w, v: F.gelu(x @ w) @ v, "bf16[32,64],bf16[64,128],bf16[128,64]"),
    "cross_entropy": (lambda logits, t: F.cross_entropy(logits, t), "bf16[64,1000],i64[64]<1000"),
    "two outputs": (lambda x: (x + 1, x * 2), "f32[300]"),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (512,), w, b), "f32[20,512],f32[512],f32[512]"),
    "transposed": (lambda x: x.t().contiguous() + 1, "f32[70,90]"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_generated_code_runs_on_the_engine_with_right_numbers(name: str) -> None:
    function, text = FUNCTIONS[name]
    inputs = real_inputs(parse_inputs(text))
    graph = capture(function, parse_inputs(text), H200)
    execution = execute_compiled(graph, function, inputs)
    verdict = judge(execution.outputs, reference_outputs(function, inputs))
    assert verdict.ok, verdict
    assert execution.traces and not any(t.findings for t in execution.traces)


@pytest.fixture(scope="module")
def seen() -> CompiledGraph:
    return capture(add_relu, parse_inputs("f32[100000],f32[100000]"), H200)


def test_the_wrapper_is_read(seen: CompiledGraph) -> None:
    (region,) = seen.regions
    (call,) = region.calls
    assert call.kernel == "triton_poi_fused_add_relu_0"
    assert call.ops == ("aten.add", "aten.relu")
    assert (len(call.reads), len(call.writes), region.outputs) == (2, 1, call.writes)
    assert all(region.buffers[name].bytes == 400_000 for name in (*call.reads, *call.writes))


def test_grid_is_the_one_the_first_config_gives(seen: CompiledGraph) -> None:
    (call,) = seen.regions[0].calls
    block = call.config["XBLOCK"]
    assert isinstance(block, int)
    assert call.grid == (-(-100_000 // block), 1, 1)


def test_nodes_know_the_users_line(seen: CompiledGraph) -> None:
    add, relu = [node for node in seen.regions[0].fx if node.op == "call_function"]
    assert add.source == relu.source
    assert add.source.endswith(f"test_inductor.py:{add_relu.__code__.co_firstlineno + 1}")
    assert add.code == "return torch.relu(x + y)"


def test_the_second_call_hits_dynamos_cache(seen: CompiledGraph) -> None:
    assert seen.cache.startswith("hit")
    assert seen.warm_s is not None and 0 < seen.warm_s < seen.cold_s


def test_a_graph_break_keeps_both_graphs_and_its_line() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    graph = capture(broken, parse_inputs("f32[64]"), H200)
    assert len(graph.regions) == 2
    assert graph.breaks[0].source.endswith(f":{broken.__code__.co_firstlineno + 2}")
    with pytest.raises(UnsupportedError, match="cut into 2 graphs"):
        execute_compiled(graph, broken, real_inputs(parse_inputs("f32[64]")))


def test_a_reused_buffer_is_a_new_tensor() -> None:
    graph = capture(FUNCTIONS["gelu_mlp"][0], parse_inputs(FUNCTIONS["gelu_mlp"][1]), H200)
    first, gelu, second = graph.regions[0].calls
    assert gelu.reads == first.writes
    assert gelu.writes != gelu.reads
    assert second.reads[0] == gelu.writes[0]


def test_a_rejected_shape_is_the_users_to_mend() -> None:
    with pytest.raises(InputError, match="the function failed on these inputs"):
        capture(add_relu, parse_inputs("f32[3],f32[4]"), H200)


def test_an_amd_target_is_refused_loudly() -> None:
    with pytest.raises(UnsupportedError, match="mi300x"), pretend(target("mi300x")):
        pass


def test_pretending_leaves_torch_as_it_was() -> None:
    names = ("get_device_properties", "current_device", "device_count", "_lazy_init")
    before = [getattr(torch.cuda, name) for name in names]
    with pretend(H200):
        assert torch.cuda.get_device_properties(0).multi_processor_count == 132
        assert not torch.cuda.is_available()
    assert [getattr(torch.cuda, name) for name in names] == before


def test_a_module_with_weights_compiles_and_runs() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    x = torch.randn(16, 32)
    compiled = CompiledOnEngine(model, H200, mode=None, dynamic=None)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
        compiled(x)
    assert compiled.calls == [1, 1]


def test_configs_are_not_those_that_this_machine_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor asks its cache of timings by a key over all of torch's sources: neither is asked."""

    def asked(*_: object) -> bytes:
        raise AssertionError("the cache of timings was asked")

    monkeypatch.setattr("torch._inductor.codecache.torch_key", asked)
    (region,) = capture(lambda x: x * 3.25 + 0.125, parse_inputs("f32[100003]"), target("h200")).regions
    (kernel,) = region.kernels
    assert len(kernel.configs) > 1
