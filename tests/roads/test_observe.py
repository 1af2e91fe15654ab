"""The compiled road with gradients, dynamic shapes, graph breaks and choices that only a GPU's clock makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tilesight
from tilesight.roads.model import Kernel, Observation


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.drop = nn.Linear(64, 256), nn.Linear(256, 64), nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.down(torch.relu(self.up(x))))


def scaled_exp(x: Tensor, w: Tensor) -> Tensor:
    return torch.exp(x) * w


def broken(x: Tensor) -> Tensor:
    y = torch.relu(x) + 1
    torch._dynamo.graph_break()
    return y * 2


def kernels_of(seen: Observation, graph: str) -> list[Kernel]:
    return [kernel for kernel in seen.kernels if kernel.graph == graph]


def test_backward_shows_both_graphs_and_one_ledger() -> None:
    n = 1 << 20
    seen = tilesight.observe(scaled_exp, f"f32[{n}],f32[{n}]", backward=True)
    (forward,) = kernels_of(seen, "forward")
    (backward,) = kernels_of(seen, "backward")
    assert {forward.kind, backward.kind} == {"triton"}
    assert backward.grid is not None and backward.config
    # forward: reads x and w, writes y; backward: reads x, w and dy, writes dx and dw
    assert seen.ledger.compiled_bytes == (3 + 5) * 4 * n
    assert seen.ledger.ideal_bytes == (3 + 3) * 4 * n
    assert seen.ledger.eager_bytes is not None and seen.ledger.eager_bytes > seen.ledger.compiled_bytes
    assert seen.ledger.round_trips == ()


def test_what_the_forward_graph_saves_and_the_backward_one_loads_is_a_round_trip() -> None:
    n = 1 << 16
    seen = tilesight.observe(torch.exp, f"f32[{n}]", backward=True)
    (forward,), (backward,) = kernels_of(seen, "forward"), kernels_of(seen, "backward")
    (trip,) = seen.ledger.round_trips
    # the result is returned, so it is stored in any case: its load by the backward kernel is what it costs
    assert (trip.written_by, trip.read_by, trip.bytes) == (forward.name, (backward.name,), 4 * n)
    (made,) = seen.ledger.eager_round_trips
    assert made.bytes == 4 * n


def test_backward_of_a_module_trains_it_and_takes_no_memory() -> None:
    with torch.device("meta"):
        module = Block()
    seen = tilesight.observe(module, "f32[100,64]", backward=True)
    ops = {op for kernel in kernels_of(seen, "forward") for op in kernel.ops}
    assert "aten.native_dropout" in ops  # eval mode would have none
    found = [kernel.name for kernel in kernels_of(seen, "backward") if kernel.kind == "extern"]
    assert found.count("mm") == 4  # two gradients of each linear layer: of its input and of its weight
    document = seen.to_dict()
    kernels: Any = document["kernels"]
    assert {kernel["graph"] for kernel in kernels} == {"forward", "backward"}
    graph: Any = document["graph"]
    assert {op["graph"] for op in graph["ops"]} == {"forward", "backward"}
    assert all(kernel["bytes"]["requested"] for kernel in kernels if kernel["kind"] == "triton")


def test_bytes_of_both_graphs_are_measured_where_they_are_small() -> None:
    seen = tilesight.observe(scaled_exp, "f32[10000],f32[10000]", backward=True)
    (forward,), (backward,) = kernels_of(seen, "forward"), kernels_of(seen, "backward")
    assert (forward.bytes.requested, backward.bytes.requested) == (3 * 40_000, 5 * 40_000)
    assert seen.notes == ()


def test_without_gradients_every_kernel_is_of_inference() -> None:
    seen = tilesight.observe(scaled_exp, "f32[1000],f32[1000]")
    assert {kernel.graph for kernel in seen.kernels} == {"inference"}


def test_backward_across_a_graph_break() -> None:
    seen = tilesight.observe(broken, "f32[128,64]", backward=True)
    assert len(seen.breaks) == 1
    assert len(seen.output_code) == 4
    assert kernels_of(seen, "forward") and kernels_of(seen, "backward")


def test_dynamic_shapes_have_the_bytes_and_grids_of_the_call() -> None:
    fixed = tilesight.observe(scaled_exp, "f32[1000,100],f32[1000,100]")
    dynamic = tilesight.observe(scaled_exp, "f32[1000,100],f32[1000,100]", dynamic=True)
    assert "s" in dynamic.output_code[0] and dynamic.output_code != fixed.output_code
    assert dynamic.ledger.compiled_bytes == fixed.ledger.compiled_bytes == 3 * 400_000
    (there,), (here,) = dynamic.kernels, fixed.kernels
    assert there.grid == here.grid is not None
    assert there.bytes == here.bytes
    assert there.bytes.requested == 3 * 400_000


def test_buffers_of_two_graphs_are_not_taken_for_one() -> None:
    seen = tilesight.observe(broken, "f32[128,64]")
    first, second = seen.kernels
    assert (first.writes, second.writes) == (("buf0",), ("buf0",))
    assert seen.ledger.round_trips == ()
    assert seen.ledger.compiled_bytes == 4 * 8192 * 4


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_max_autotune_lists_what_the_gpu_would_time(mode: str) -> None:
    seen = tilesight.observe(torch.matmul, "bf16[512,256],bf16[256,512]", mode=mode)
    (kernel,) = seen.kernels
    assert kernel.name == "mm"
    assert kernel.choices[0] == "mm" and len(kernel.choices) > 5
    assert all(choice.startswith("triton_mm") and "BLOCK_M=" in choice for choice in kernel.choices[1:])
    (note,) = [note for note in seen.notes if note.startswith("not decided")]
    assert f"{len(kernel.choices)} ways" in note


def test_padding_is_told_as_not_decided_and_only_where_it_is_open() -> None:
    odd = tilesight.observe(torch.matmul, "f32[1000,333],f32[333,777]")
    assert any("padding" in note and note.startswith("not decided") for note in odd.notes)
    even = tilesight.observe(torch.matmul, "f32[1024,256],f32[256,1024]")
    assert not any(note.startswith("not decided") for note in even.notes)


def test_backward_is_recorded_after_another_backward_pass_of_the_process() -> None:
    """By then autograd has its threads, and none for a GPU that is not here."""
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    found = tilesight.observe(lambda x: torch.softmax(x, -1), "f32[8,16]", backward=True)
    assert {kernel.graph for kernel in found.kernels} == {"forward", "backward"}


def test_every_extern_call_of_a_kind_has_its_own_size() -> None:
    """A buffer's origins name the convolutions before it too."""

    def pyramid(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        half = torch.nn.functional.max_pool2d(torch.relu(torch.nn.functional.conv2d(x, first)), 2)
        return torch.relu(torch.nn.functional.conv2d(half, second))

    seen = tilesight.observe(pyramid, "bf16[1,3,66,66],bf16[8,3,3,3],bf16[8,8,3,3]")
    sizes = [trip.bytes for trip in seen.ledger.round_trips if trip.written_by == "convolution"]
    assert sizes == [2 * 8 * 64 * 64 * 2, 2 * 8 * 30 * 30 * 2]
    assert seen.ledger.compiled_bytes is not None and seen.ledger.eager_bytes is not None
    assert seen.ledger.compiled_bytes < seen.ledger.eager_bytes


def test_all_results_of_an_eager_operator_are_written() -> None:
    """Max-pooling writes 8-byte indices beside its values."""
    seen = tilesight.observe(lambda x: torch.nn.functional.max_pool2d(x, 2), "f32[1,4,64,64]")
    assert seen.ledger.eager_bytes == 4 * 64 * 64 * 4 + 4 * 32 * 32 * (4 + 8)


def test_the_sum_of_a_workspace_in_plain_torch_is_a_step_of_the_ledger() -> None:
    """Layer norm's backward kernel leaves sums of its programs' rows in a workspace, which plain torch adds up."""
    rows, columns, programs = 16384, 512, 1024

    def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x, (columns,), weight, bias)

    seen = tilesight.observe(layer_norm, f"f32[{rows},{columns}],f32[{columns}],f32[{columns}]", backward=True)
    kernel, *sums = kernels_of(seen, "backward")
    assert [each.name for each in sums] == ["torch.sum", "torch.sum"]
    assert kernel.writes[-1] == "workspace_0" and "workspace_0" not in kernel.reads
    whole, part = 4 * rows * columns, 4 * programs * columns
    forward = 2 * whole + 2 * 4 * rows + 2 * 4 * columns  # reads x, weight and bias; writes y, mean and rstd
    backward = 3 * whole + 2 * 4 * rows + 4 * columns + 2 * part  # dy, x, mean, rstd, weight; dx and the workspace
    assert seen.ledger.compiled_bytes == forward + backward + 2 * (part + 4 * columns)
    (trip,) = [trip for trip in seen.ledger.round_trips if trip.tensor.endswith("workspace_0")]
    assert (trip.written_by, trip.read_by, trip.bytes) == (kernel.name, ("torch.sum",), 4 * part)


def test_each_tensor_that_attention_returns_has_its_own_bytes() -> None:
    """The gradients of queries, keys and values are three tensors: who reads one does not read all."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q * 2, k, v) + 1

    shape = "bf16[2,4,128,64]"
    seen = tilesight.observe(attend, f"{shape},{shape},{shape}", backward=True)
    one = 2 * 4 * 128 * 64 * 2
    saved = 2 * 4 * 128 * 4 + 2 * 8  # the log-sum-exp of each row in f32, a random seed and an offset
    forward = 2 * one + (4 * one + saved) + 2 * one
    backward = (5 * one + saved) + 3 * one + 2 * one
    assert seen.ledger.compiled_bytes == forward + backward


def test_a_sum_in_plain_torch_is_read_by_a_sampled_kernel() -> None:
    """Layer norm's gradients over a workspace, summed by torch, at a size whose kernels are sampled."""

    def norms(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (768,), w, b)

    seen = tilesight.observe(norms, "bf16[8192,768],bf16[768],bf16[768]", backward=True)
    assert any(kernel.name.startswith("torch.") for kernel in seen.kernels)
    assert all(kernel.bytes.touched for kernel in seen.kernels if kernel.kind == "triton")


def test_what_eager_mode_cannot_do_leaves_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("no luck")

    monkeypatch.setattr("tilesight.roads.observe.record_eager", fail)
    seen = tilesight.observe(lambda x: torch.relu(x) + 1, "f32[64]")
    assert [kernel.kind for kernel in seen.kernels] == ["triton"]
    assert seen.ledger.eager_bytes is None
    assert seen.ledger.compiled_bytes == 2 * 64 * 4
    assert "eager mode not recorded: KeyError: 'no luck'" in seen.notes


def test_a_kernel_that_runs_again_on_tensors_of_the_same_layout_is_looked_at_once() -> None:
    """Three layers of 16 Mi elements: the ReLU behind each is one kernel, called thrice, and looked at once."""

    def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.relu(x @ w)
        return x

    seen = tilesight.observe(layers, "f32[4096,4096],f32[4096,4096]")
    launched = [kernel for kernel in seen.kernels if kernel.kind == "triton"]
    assert len(launched) == 3 and len({kernel.source for kernel in launched}) == 1
    assert {kernel.bytes.touched for kernel in launched} == {2 * 4 * 4096**2}
    assert any("programs of 1 kernel" in note for note in seen.notes)
