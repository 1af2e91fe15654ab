"""Why neighbours are two kernels: who decided it, in whose words, and what the bytes between them cost."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import tilesight
from tilesight.roads.apart import MEANINGS
from tilesight.roads.model import NotFused, Observation
from tilesight.targets import target

ROWS, COLUMNS = 1024, 512


def pair(seen: Observation, first: int, second: int) -> NotFused:
    (found,) = [each for each in seen.not_fused if each.kernels == (first, second)]
    return found


def bias_and_product(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(torch.exp(x) @ w) + b


def test_a_library_call_is_told_with_the_bytes_on_both_sides() -> None:
    seen = tilesight.observe(bias_and_product, f"f32[{ROWS},64],f32[64,{COLUMNS}],f32[{COLUMNS}]")
    assert [kernel.kind for kernel in seen.kernels] == ["triton", "extern", "triton"]
    before, after = pair(seen, 0, 1), pair(seen, 1, 2)
    assert (before.a, before.b, after.a, after.b) == ("exp", "mm", "mm", "relu + add")
    assert {before.decision, after.decision} == {"library call"}
    assert "mm is a library call" in before.reason
    assert (before.bytes, after.bytes) == (2 * 4 * ROWS * 64, 2 * 4 * ROWS * COLUMNS)
    assert after.relation == "producer and consumer" and after.tensors == seen.kernels[1].writes
    assert seen.not_fused[0] == after  # the dearest first


def test_the_time_is_the_bytes_over_the_targets_bandwidth() -> None:
    for name in ("h200", "a100"):
        seen = tilesight.observe(bias_and_product, f"f32[{ROWS},64],f32[64,{COLUMNS}],f32[{COLUMNS}]", target=name)
        apart = pair(seen, 1, 2)
        assert apart.bytes is not None
        assert apart.predicted_us == pytest.approx(apart.bytes / (target(name).roof_gb_per_s * 1e9) * 1e6, rel=1e-3)


def step_of_a_cache(cache: Tensor, new: Tensor, w: Tensor) -> Tensor:
    cache[:, 0] = new
    return (cache * w).sum(-1)


def test_of_a_cache_with_a_new_row_that_row_alone_is_handed_on() -> None:
    """16 caches of 1,024 rows of 64: the other rows are the graph's input, and are read on every road."""
    seen = tilesight.observe(step_of_a_cache, "f32[16,1024,64],f32[16,64],f32[64]")
    row, cache, sums, w = 4 * 16 * 64, 4 * 16 * 1024 * 64, 4 * 16 * 1024, 4 * 64
    assert [kernel.kind for kernel in seen.kernels] == ["triton", "triton"]
    assert seen.ledger.compiled_bytes == 2 * row + cache + w + sums
    assert seen.ledger.ideal_bytes == 2 * row + cache - row + w + sums
    assert [(each.bytes, each.read_by) for each in seen.ledger.round_trips] == [(row, (seen.kernels[1].name,))]
    assert [(each.kernels, each.bytes) for each in seen.not_fused] == [((0, 1), row)]


def two_reductions(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.relu(x)
    return y * 2, y.sum(0).cumsum(0)


def test_a_refusal_has_inductors_rule_and_its_figures() -> None:
    seen = tilesight.observe(two_reductions, f"f32[{ROWS},{COLUMNS}]")
    refused = [each for each in seen.not_fused if each.figures]
    assert refused and all(each.decision == "refused" for each in refused)
    assert all(each.reason == each.rule % each.figures and each.meaning == MEANINGS[each.rule] for each in refused)


def test_two_that_read_one_input_cost_its_second_load() -> None:
    seen = tilesight.observe(two_reductions, f"f32[{ROWS},{COLUMNS}]")
    shared = [each for each in seen.not_fused if each.relation == "same input"]
    assert [each.bytes for each in shared] == [4 * ROWS * COLUMNS]
    assert all("arg0_1" in seen.kernels[number].reads for number in shared[0].kernels)


def test_what_another_kernel_needs_too_is_stored_in_any_case() -> None:
    def several(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.exp(x)
        return y @ w, y @ w.t()

    seen = tilesight.observe(several, f"f32[{ROWS},64],f32[64,64]")
    pairs = [each for each in seen.not_fused if each.relation == "producer and consumer"]
    assert [each.bytes for each in pairs] == [4 * ROWS * 64] * 2  # the load only


def test_what_is_returned_is_stored_in_any_case() -> None:
    def kept(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.exp(x)
        return y @ w, y

    seen = tilesight.observe(kept, f"f32[{ROWS},64],f32[64,64]")
    assert [each.bytes for each in seen.not_fused] == [4 * ROWS * 64]


def test_every_round_trip_of_one_graph_has_a_reason() -> None:
    def block(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
        h = F.gelu(F.layer_norm(x, (64,)) @ up) @ down
        return F.layer_norm(h + x, (64,)).cumsum(0)

    seen = tilesight.observe(block, f"bf16[{ROWS},64],bf16[64,256],bf16[256,64]")
    told = {tensor for each in seen.not_fused for tensor in each.tensors}
    assert seen.ledger.round_trips and {trip.tensor for trip in seen.ledger.round_trips} <= told
    assert all(each.reason for each in seen.not_fused)


def test_a_workspace_and_its_sum_are_told_as_such() -> None:
    def norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.layer_norm(x, (512,), w, b)

    seen = tilesight.observe(norm, "f32[16384,512],f32[512],f32[512]", backward=True)
    apart = [each for each in seen.not_fused if each.decision == "workspace"]
    assert [seen.kernels[each.kernels[1]].name for each in apart] == ["torch.sum", "torch.sum"]
    assert len({each.kernels[0] for each in apart}) == 1


def test_of_several_graphs_each_has_its_own_names_and_kernels() -> None:
    def broken(x: Tensor, w: Tensor) -> Tensor:
        y = torch.exp(x) @ w
        torch._dynamo.graph_break()
        return torch.relu(y @ w) @ w

    seen = tilesight.observe(broken, f"f32[{ROWS},64],f32[64,64]")
    for each in seen.not_fused:
        first, second = (seen.kernels[number] for number in each.kernels)
        names = {tensor.split(".")[1] for tensor in each.tensors}
        assert names <= {*first.writes, *first.reads} and names <= {*second.reads}
    assert {each.tensors[0].split(".")[0] for each in seen.not_fused} == {"graph1", "graph2"}


def test_rules_that_mean_something_are_inductors_own() -> None:
    """The words are taken from torch's code: one that moves there has lost its meaning here."""
    folder = Path(torch.__file__).parent / "_inductor"
    files = ("scheduler.py", "choices.py", "codegen/simd.py")
    code = "".join((folder / name).read_text() for name in files)
    assert [rule for rule in MEANINGS if f'"{rule}"' not in code] == []


def test_library_calls_have_bytes_by_formula() -> None:
    seen = tilesight.observe(bias_and_product, f"f32[{ROWS},64],f32[64,{COLUMNS}],f32[{COLUMNS}]")
    product = seen.kernels[1]
    assert (product.name, product.bytes.requested) == ("mm", None)
    assert product.bytes.touched == 4 * (ROWS * 64 + 64 * COLUMNS + ROWS * COLUMNS)
