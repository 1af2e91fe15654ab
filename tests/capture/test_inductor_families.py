"""What torch.compile writes for a GPU that is not here: training, autocast, layouts, custom operators, collectives."""

from __future__ import annotations

import copy
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchgen
from torch import Tensor

from tests.gpu.functions.catalogue import catalogue
from tests.gpu.functions.sample import Sample
from tests.gpu.generated import Outcome, compile_sample
from tests.gpu.generated_differences import BY_THE_CLOCK, kind_of_difference, report_of
from tilesight.capture.inductor.cuda_build import ONE_KERNEL_ON_CUDA
from tilesight.capture.inductor.graph import CompiledRegion
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inductor.training import run_training
from tilesight.capture.inputs import TensorSpec, parse_inputs, real_inputs
from tilesight.targets import target

H200 = target("h200")
SAMPLES = catalogue()


def regions_of(sample: Sample) -> tuple[CompiledRegion, ...]:
    return capture(
        sample.function, sample.inputs, H200, mode=sample.mode, dynamic=sample.dynamic, backward=sample.backward
    ).regions


def calls_of(name: str) -> list[str]:
    return [call.kernel for region in regions_of(SAMPLES[name]) for call in region.calls]


def ops_of(name: str) -> set[str]:
    return {node.target for region in regions_of(SAMPLES[name]) for node in region.aten}


def test_the_corpus_is_large_and_covers_each_way_to_compile() -> None:
    assert len({sample.function for sample in SAMPLES.values()}) >= 150
    assert sum(sample.backward for sample in SAMPLES.values()) >= 50
    assert sum(bool(sample.dynamic) for sample in SAMPLES.values()) >= 10
    assert sum(sample.mode is not None for sample in SAMPLES.values()) >= 5


ONE_OF_A_KIND = (
    "matmuls.GptBlock backward",
    "matmuls.GptBlock dynamic",
    "matmuls.gelu_mlp backward reduce-overhead",
    "indexing.write_through_view",
    "indexing.write_and_return_view",
    "random_numbers.DropoutBlock backward",
    "images.ResidualBlock backward",
    "low_precision.scaled_matmul max-autotune-no-cudagraphs",
    "operators.checkpointed backward",
    "operators.conditional",
)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_it_compiles_offline_as_the_corpus_asks(name: str) -> None:
    outcome = compile_sample(SAMPLES[name], "offline")
    assert outcome.error == ""
    assert len(outcome.forward) == 1 and len(outcome.backward) == int(SAMPLES[name].backward)


def test_a_custom_operator_stays_a_call_between_generated_kernels() -> None:
    before, operator, after = calls_of("operators.with_custom_op")
    assert before.startswith("triton_") and after.startswith("triton_")
    assert operator.startswith("tilesight_corpus.double_plus")


def test_a_triton_op_becomes_a_launch_in_the_wrapper_with_its_grid() -> None:
    (region,) = regions_of(SAMPLES["operators.with_triton_op"])
    (launch,) = [call for call in region.calls if "scale_kernel" in call.kernel]
    assert launch.grid == (98, 1, 1)  # ⌈100000 / 1024⌉


def test_a_raw_kernel_with_dynamic_sizes_has_the_grid_of_the_call() -> None:
    (region,) = regions_of(SAMPLES["operators.with_own_kernel dynamic"])
    (launch,) = [call for call in region.calls if "scale_kernel" in call.kernel]
    assert launch.grid == (196, 1, 1)  # ⌈100000 / 512⌉


def test_an_autotuned_kernel_has_the_grid_of_its_first_config() -> None:
    (region,) = regions_of(SAMPLES["operators.with_tuned_kernel"])
    (launch,) = [call for call in region.calls if "tuned_kernel" in call.kernel]
    assert (launch.grid, launch.config["BLOCK"]) == ((391, 1, 1), 256)


def test_a_collective_is_a_call_that_is_waited_for() -> None:
    names = calls_of("collectives.sharded_mlp")
    reduced = next(at for at, name in enumerate(names) if "all_reduce" in name)
    assert "wait_tensor" in names[reduced + 1]
    assert names[-1].startswith("triton_") and "softmax" in names[-1]


def test_autocast_rounds_for_the_product_and_not_for_softmax() -> None:
    (region,) = regions_of(SAMPLES["operators.autocast"])
    (product,) = [node for node in region.aten if node.target == "aten.mm.default"]
    assert product.dtype == "bfloat16"
    assert region.buffers[region.outputs[0]].dtype == "float32"


def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), w)


def silu_then_mish(x: Tensor) -> Tensor:
    return F.mish(F.silu(x))


def test_operators_that_cuda_has_whole_are_named_whole() -> None:
    norm = capture(rms_norm, parse_inputs("bf16[64,512],bf16[512]"), H200, backward=True)
    assert ["fused_rms_norm" in kernel.name for region in norm.regions for kernel in region.kernels].count(False) == 0
    activations = capture(silu_then_mish, parse_inputs("bf16[64,512]"), H200, backward=True)
    (backward,) = activations.regions[1].kernels
    assert "mish_backward" in backward.name and "silu_backward" in backward.name


def test_operators_that_cuda_has_whole_are_those_of_torchs_own_list() -> None:
    text = (Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml").read_text()
    functions = {entry.split("(")[0]: entry for entry in re.split(r"^- func: ", text, flags=re.MULTILINE)[1:]}
    found = [name for name, entry in functions.items() if _keys(entry) and "CompositeImplicitAutograd" in _keys(entry)]
    whole = {name for name in found if "CUDA" in _keys(functions[name]) | _delegated(functions, functions[name])}
    assert whole == set(ONE_KERNEL_ON_CUDA)


def _keys(entry: str) -> set[str]:
    """The dispatch keys of one function of the list."""
    table = re.search(r"^  dispatch:\n((?:    .*\n)+)", entry, re.MULTILINE)
    lines = table.group(1).splitlines() if table else []
    return {key.strip() for line in lines for key in line.split("#")[0].split(":")[0].split(",")}


def _delegated(functions: dict[str, str], entry: str) -> set[str]:
    other = re.search(r"structured_delegate: (\S+)", entry)
    return _keys(functions[other.group(1)]) if other else set()


class Trained(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(24, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.log_softmax(self.last(F.gelu(self.norm(self.first(x)))), -1)


def rotated(x: Tensor, at: Tensor) -> Tensor:
    return (x[at].sin() * x.flip(0)).cumsum(-1)


@pytest.mark.parametrize("function", [rms_norm, silu_then_mish, Trained(), rotated], ids=lambda each: repr(each)[:20])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_the_offline_graphs_are_those_of_float64(function: Any, dynamic: bool) -> None:
    width, rows = (24 if isinstance(function, Trained) else 33), 19
    texts = {rms_norm: f"f32[{rows},{width}],f32[{width}]", rotated: f"f32[{rows},{width}],i64[{rows}]<{rows}"}
    specs = parse_inputs(texts.get(function, f"f32[{rows},{width}]"))
    inputs = real_inputs(specs)
    graph = capture(function, specs, H200, backward=True, dynamic=dynamic or None)
    step = run_training(graph, function, inputs)
    wide = copy.deepcopy(function).double() if isinstance(function, Trained) else function
    leaves = [each.double().requires_grad_() if each.is_floating_point() else each for each in inputs]
    out = wide(*leaves)
    asked = [*leaves, *(wide.parameters() if isinstance(wide, Trained) else ())]
    expected = torch.autograd.grad(out, [each for each in asked if each.requires_grad], torch.ones_like(out))
    torch.testing.assert_close(step.outputs[0].double(), out, rtol=1e-4, atol=1e-5)
    found = [each for each in step.gradients if each is not None]
    assert sorted(each.shape for each in found) == sorted(each.shape for each in expected)
    for each in expected:
        near = [g for g in found if g.shape == each.shape and torch.allclose(g.double(), each, rtol=1e-3, atol=1e-4)]
        assert near, each.shape


LAST = torch.channels_last
LAYOUTS: dict[str, tuple[torch.dtype, Any, Any, bool]] = {
    "rows of both": (torch.float32, torch.contiguous_format, torch.contiguous_format, False),
    "channels last of the image": (torch.float32, LAST, torch.contiguous_format, True),
    "channels last of the weight": (torch.bfloat16, torch.contiguous_format, LAST, True),
    "double, which cuDNN keeps": (torch.float64, LAST, LAST, False),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_convolution_has_the_layout_that_cudnn_gives_it(name: str) -> None:
    dtype, image_format, weight_format, is_last = LAYOUTS[name]
    image = torch.empty(2, 16, 8, 8, dtype=dtype, device="meta").to(memory_format=image_format)
    weight = torch.empty(32, 16, 3, 3, dtype=dtype, device="meta").to(memory_format=weight_format)
    specs = [TensorSpec(tuple(each.shape), dtype, tuple(each.stride())) for each in (image, weight)]
    inductor: Any = import_module("torch._inductor.config")
    with inductor.patch(layout_optimization=False):
        (region,) = capture(lambda x, w: F.conv2d(x, w, padding=1).relu(), specs, H200).regions
    strides = set(re.findall(r"%convolution : Tensor \"\w+\[2, 32, 8, 8\]\[([\d, ]+)\]", region.code))
    assert strides == {"2048, 1, 256, 32" if is_last else "2048, 64, 8, 1"}


def test_differences_are_told_by_kind() -> None:
    call = "extern_kernels.mm(a, b)\n"
    kernel = "k = async_compile.triton('k', '''{}''', device_str='cuda')\n"
    same = Outcome([call])
    assert kind_of_difference(same, same) == ""
    assert kind_of_difference(same, Outcome(error="no")) == "failed on the device"
    assert kind_of_difference(same, Outcome([call, call])) == "another number of graphs"
    assert kind_of_difference(same, Outcome(["extern_kernels.addmm(a, b)\n"])) == "other extern calls"
    assert kind_of_difference(same, Outcome([call + kernel.format("x")])) == "other kernels"
    assert kind_of_difference(Outcome([kernel.format("x")]), Outcome([kernel.format("y")])) == "another kernel text"
    assert kind_of_difference(same, Outcome([call + "# x\n"])) == "another wrapper around the same kernels"
    timed = [["mm", "triton_mm"]]
    assert kind_of_difference(Outcome([call], choices=timed), Outcome([call + "# x"], choices=timed)) == BY_THE_CLOCK
    assert kind_of_difference(Outcome([call], choices=timed), same) == "other choices to be timed"
    assert report_of({"a": same, "b": same}, {"a": same, "b": Outcome(error="no")}).startswith("1 of 2 samples (50.0%)")
