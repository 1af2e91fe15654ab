"""The chain from the user's line to the lines of a kernel, followed in both directions."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import tilesight
from tilesight.roads.model import Link, Observation


def block(x: Tensor, w: Tensor) -> Tensor:
    h = torch.relu(x)
    h = h @ w
    h = F.gelu(h)
    return h + x


FIRST_LINE = inspect.getsourcelines(block)[1]
INPUTS = "f32[1024,64],f32[64,64]"


def place(line: int) -> str:
    return f"line:{__file__}:{FIRST_LINE + line}"


def by_id(seen: Observation) -> dict[str, Link]:
    return {link.id: link for link in seen.links}


def reached(links: dict[str, Link], start: str, kind: str, direction: str) -> set[str]:
    """Names of one kind that can be reached from a thing in one direction."""
    found, seen, open_ids = set[str](), {start}, [start]
    while open_ids:
        link = links[open_ids.pop()]
        found |= {link.id} if link.kind == kind else set()
        fresh = {*(link.behind if direction == "behind" else link.before)} - seen
        seen |= fresh
        open_ids += fresh
    return found


@pytest.fixture(scope="module")
def observed() -> Observation:
    return tilesight.observe(block, INPUTS)


@pytest.fixture(scope="module")
def trained() -> Observation:
    return tilesight.observe(block, INPUTS, backward=True)


def test_every_neighbour_knows_the_other_and_ids_are_unique(observed: Observation, trained: Observation) -> None:
    for seen in (observed, trained):
        links = by_id(seen)
        assert len(links) == len(seen.links)
        pairs = {(link.id, behind) for link in seen.links for behind in link.behind}
        assert pairs and pairs == {(before, link.id) for link in seen.links for before in link.before}


def test_a_users_line_leads_to_its_kernels_and_back(observed: Observation) -> None:
    links = by_id(observed)
    kernels = [kernel.name for kernel in observed.kernels]
    assert [kernel.kind for kernel in observed.kernels] == ["triton", "extern", "triton"], kernels
    expected = {1: {"kernel:0"}, 2: {"kernel:1"}, 3: {"kernel:2"}, 4: {"kernel:2"}}
    for line, wanted in expected.items():
        assert reached(links, place(line), "kernel", "behind") == wanted
    for number, lines in ((0, {1}), (1, {2}), (2, {3, 4})):
        assert reached(links, f"kernel:{number}", "line", "before") == {place(line) for line in lines}


def test_lines_of_source_are_those_that_compute_a_node(observed: Observation) -> None:
    links = by_id(observed)
    source = observed.kernels[2].source.split("\n")

    def lines_of(node: str) -> list[str]:
        return [
            source[int(links[each].name) - 1] for each in links[f"aten:{node}"].behind if each.startswith("source:2")
        ]

    assert any("libdevice.erf(" in line for line in lines_of("erf"))
    assert not any("libdevice.erf(" in line for line in lines_of("add_1"))
    assert any("tl.store(" in line for line in lines_of("add_1")) and not any("tl.store(" in x for x in lines_of("erf"))


def test_loads_and_stores_name_their_tensors(observed: Observation) -> None:
    links = by_id(observed)
    read, made = observed.kernels[2].reads, observed.kernels[2].writes
    source = observed.kernels[2].source.split("\n")
    for link in observed.links:
        if link.id.startswith("source:2."):
            tensors = {each.removeprefix("buffer:") for each in link.before if each.startswith("buffer:")}
            line = source[int(link.name) - 1]
            assert tensors <= set(made if "tl.store" in line else read)
            assert bool(tensors) == ("tl.load" in line or "tl.store" in line)
    assert {each.removeprefix("buffer:") for each in links if each.startswith("buffer:")} >= {*read, *made}


def test_every_computing_line_of_every_kernel_is_linked(trained: Observation) -> None:
    links = by_id(trained)
    for number, kernel in enumerate(trained.kernels):
        for place_, text in enumerate(kernel.source.split("\n"), start=1):
            if "tmp" in text:
                link = links[f"source:{number}.{place_}"]
                assert any(each.startswith("aten:") for each in link.before), text


def test_a_backward_kernel_leads_to_the_line_whose_gradient_it_is(trained: Observation) -> None:
    links = by_id(trained)
    backward = [n for n, kernel in enumerate(trained.kernels) if kernel.graph == "backward" and kernel.kind == "triton"]
    lines = set[str]().union(*(reached(links, f"kernel:{number}", "line", "before") for number in backward))
    assert place(1) in lines and place(3) in lines
    assert all(links[each].before for each in links if each.startswith("aten:"))


def test_groups_name_the_kernel_and_values_that_stayed_on_the_chip() -> None:
    seen = tilesight.observe(lambda x: F.layer_norm(x, (512,)), "f32[4096,512]")
    links = by_id(seen)
    (group,) = [link for link in seen.links if link.kind == "group"]
    assert group.behind == ("kernel:0",)
    inside = {links[each].name for each in group.before}
    assert inside > set(seen.kernels[0].writes)  # mean and variance are buffers that were never stored


def test_a_reduction_over_a_loop_links_its_accumulator() -> None:
    seen = tilesight.observe(lambda x: x.exp().sum(-1), "f32[512,65536]")
    links = by_id(seen)
    kernel = seen.kernels[0]
    (number,) = [n for n, text in enumerate(kernel.source.split("\n"), 1) if "= tl.sum(" in text]
    assert any(each.startswith("aten:sum") for each in links[f"source:0.{number}"].before)


def test_kernels_of_several_graphs_are_numbered_through() -> None:
    def broken(x: Tensor) -> Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return y * 2

    links = by_id(tilesight.observe(broken, "f32[128,64]"))
    assert reached(links, "kernel:1", "fx", "before") == {"fx:graph2.mul"}
    assert {"aten:graph1.relu", "aten:graph2.mul"} <= set(links)
