"""What Inductor tells while it lowers, fuses and generates, and that it generates the same as when nobody listens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tilesight.capture.inductor import compile as compiling
from tilesight.capture.inductor.graph import CompiledRegion
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inductor.scrub import scrub
from tilesight.capture.inputs import parse_inputs
from tilesight.targets import target


def two_outputs(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.relu(x)
    return y * 2, y.sum(0).cumsum(0)


def mlp(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return F.layer_norm(F.gelu(x @ up) @ down + x, (64,)).softmax(-1)


def indexed(x: Tensor, rows: Tensor) -> Tensor:
    return F.pad(x[rows], (1, 1)).sort(-1).values + x.std()


def compiled(function: Callable[..., Tensor | tuple[Tensor, ...]], inputs: str) -> CompiledRegion:
    return capture(function, parse_inputs(inputs), target("h200")).regions[0]


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (two_outputs, "f32[1024,512]"),
        (mlp, "bf16[100,64],bf16[64,256],bf16[256,64]"),
        (indexed, "f32[100,60],i64[50]<100"),
    ],
)
@pytest.mark.parametrize("backward", [False, True])
def test_listening_leaves_the_code_as_it_is(function: Callable[..., Tensor], inputs: str, *, backward: bool) -> None:
    def code() -> list[str]:
        return [
            scrub(region.code)
            for region in capture(function, parse_inputs(inputs), target("h200"), backward=backward).regions
        ]

    heard = code()
    with patch.object(compiling, "hear_fusion", lambda _: contextlib.nullcontext()):
        assert code() == heard


def test_each_value_of_a_kernel_names_its_aten_node() -> None:
    region = compiled(lambda x: torch.relu(x).exp() * 3, "f32[1000]")
    (group,) = region.groups
    assert group.kind == "fused" and group.buffers == ("buf0",)
    by_node = {node: value for value, nodes in group.values.items() for node in nodes}
    assert list(by_node) == ["relu", "exp", "mul"]
    lines = {line.split("=")[0].strip(): line for line in region.kernels[0].source.splitlines() if " = " in line}
    assert "exp(" in lines[by_node["exp"]]
    assert "maximum(" in lines[by_node["relu"]]
    assert "*" in lines[by_node["mul"]]


def test_a_value_that_two_nodes_use_names_both() -> None:
    (group,) = compiled(lambda x: (torch.relu(x) + 1) * torch.relu(x).exp(), "f32[1000]").groups
    region = compiled(lambda x: (x + 1) * x.exp(), "f32[1000]")
    assert region.groups[0].values["tmp0"] == ("add", "exp")
    assert {"relu", "add", "exp", "mul"} <= {node for nodes in group.values.values() for node in nodes}


def test_a_pair_left_apart_has_its_rule_and_figures() -> None:
    region = compiled(two_outputs, "f32[1024,512]")
    (apart,) = [each for each in region.unfused if each.figures]
    assert apart.rule.startswith("numel/rnumel mismatch") and apart.rule.count("%s") == 4
    assert apart.rule % apart.figures == apart.reason
    first, second = (region.groups[number] for number in apart.groups)
    made, read = [call for call in region.calls if set(call.writes) & {*first.buffers, *second.buffers}]
    assert made.writes[0] in read.reads


def test_groups_are_the_calls_of_the_code_in_its_order() -> None:
    region = compiled(mlp, "bf16[100,64],bf16[64,256],bf16[256,64]")
    running = [group for group in region.groups if group.kind != "nothing"]
    assert all(set(call.writes) <= set(group.buffers) for call, group in zip(region.calls, running, strict=True))
    assert [group.kind for group in running] == ["fused" if call.is_triton else "extern" for call in region.calls]
    assert all(group.values for group in running if group.kind == "fused")


def test_aten_nodes_name_the_dynamo_node_they_came_from_backward_too() -> None:
    forward, backward = capture(
        lambda x: torch.softmax(x, -1).exp(), parse_inputs("f32[8,16]"), target("h200"), backward=True
    ).regions
    names = {node.name for node in forward.fx} | {node.origin for node in forward.fx}
    for region in (forward, backward):
        working = [node for node in region.aten if node.op == "call_function"]
        assert working
        assert [node.name for node in working if node.origin and node.origin not in names] == []
    assert any(node.origin for node in backward.aten)
