"""The pictures' geometry: tiles that add up, bands that hold their operators, arcs between the right kernels."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.report import samples
from tilesight.report.catalogue import Catalogue
from tilesight.report.picture_graph import fit, graph_picture
from tilesight.report.picture_match import kernel_of_each_op
from tilesight.report.picture_tiles import tiles_picture
from tilesight.report.view_model import GraphPicture
from tilesight.roads.model import Graph, GraphOp, Kernel, Observation

WORDS = Catalogue("en")


def graph(seen: Observation) -> GraphPicture:
    picture = graph_picture(WORDS, seen)
    assert picture is not None
    return picture


def test_tiles_fill_the_width_and_the_last_one_has_a_tail() -> None:
    picture = tiles_picture(WORDS, samples.trace())
    assert picture is not None
    assert sum(tile.width for tile in picture.tiles) == pytest.approx(picture.width)
    labels = [tile.label for tile in picture.tiles]
    assert labels == ["pid=0", "pid=1", "pid=2", "pid=3", "90 more", "pid=94", "pid=95", "pid=96", "pid=97"]
    assert [tile.off_share for tile in picture.tiles[:-1]] == [0.0] * 8
    assert picture.tiles[-1].off_share == pytest.approx(352 / 1024)


def test_the_tail_tells_its_lanes() -> None:
    picture = tiles_picture(WORDS, samples.trace())
    assert picture is not None and picture.tail is not None
    tail = picture.tail
    assert (tail.on_text, tail.off_text, tail.is_masked) == ("672 lanes on", "352 lanes masked off", True)
    assert tail.on_width == pytest.approx(picture.width * 672 / 1024)
    assert (tail.first, tail.end, tail.last) == ("99,328", "end of out: 100,000", "100,351")


def test_a_tail_without_mask_is_told_from_a_masked_one() -> None:
    picture = tiles_picture(WORDS, samples.broken_trace())
    assert picture is not None and picture.tail is not None
    assert not picture.tail.is_masked
    assert picture.tail.off_text == "352 lanes out of bounds, not masked"


def test_no_tail_when_the_tile_divides_the_length() -> None:
    tiles = replace(samples.tiles(), elements=98 * 1024, tail_lanes_off=0)
    picture = tiles_picture(WORDS, replace(samples.trace(), tiles=tiles))
    assert picture is not None and picture.tail is None
    assert picture.no_tail == "The tile size divides the length: every lane of the last tile exists."


def test_a_launch_without_tiles_has_no_picture() -> None:
    assert tiles_picture(WORDS, replace(samples.trace(), tiles=None)) is None


def test_both_operators_lie_in_the_band_of_their_kernel() -> None:
    picture = graph(samples.observation())
    (band,) = picture.bands
    inside = [box for box in picture.boxes if box.kind in ("op", "kernel")]
    assert [box.texts[0] for box in inside] == ["aten.add.Tensor", "aten.relu.default", samples.GENERATED_NAME]
    for box in inside:
        assert band.x < box.x and box.x + box.width < band.x + band.width
        assert band.y < box.y and box.y + box.height < band.y + band.height
    assert [edge.kind for edge in picture.edges].count("flow") == 1
    assert not [edge for edge in picture.edges if edge.kind == "trip"]


def test_boxes_of_a_column_never_overlap() -> None:
    picture = graph(samples.attention())
    columns: dict[float, list[tuple[float, float]]] = {}
    for box in picture.boxes:
        columns.setdefault(box.x, []).append((box.y, box.y + box.height))
    assert len(columns) == 3
    for spans in columns.values():
        spans.sort()
        assert all(above[1] <= below[0] for above, below in pairwise(spans))
    assert max(box.y + box.height for box in picture.boxes) <= picture.height


def test_round_trips_are_arcs_with_their_bytes() -> None:
    trips = [edge for edge in graph(samples.attention()).edges if edge.kind == "trip"]
    assert [edge.label for edge in trips] == ["buf0 524 kB", "buf3 524 kB"]
    assert all(edge.label_x + len(edge.label) * 6 < graph(samples.attention()).width for edge in trips)


def test_a_buffer_read_twice_is_labelled_once_and_ends_where_it_is_written_anew() -> None:
    kernels = (
        Kernel("a", "triton", (), writes=("buf0",)),
        Kernel("b", "triton", (), reads=("buf0",)),
        Kernel("c", "triton", (), reads=("buf0",), writes=("buf0",)),
        Kernel("d", "triton", (), reads=("buf0",)),
    )
    picture = graph(replace(samples.observation(), graph=Graph(()), kernels=kernels))
    trips = [edge for edge in picture.edges if edge.kind == "trip"]
    assert [edge.label for edge in trips] == ["buf0", "", "buf0"]


def test_an_empty_graph_has_no_picture() -> None:
    assert graph_picture(WORDS, replace(samples.observation(), graph=Graph(()), kernels=())) is None


def test_operators_are_matched_by_name_line_and_order() -> None:
    seen = samples.attention()
    assert kernel_of_each_op(seen.graph.ops, seen.kernels) == {
        "bmm": 0,
        **dict.fromkeys(("amax", "sub", "exp", "sum", "div"), 1),
        "bmm_1": 2,
    }


def test_each_graph_has_its_own_operators_and_buffers() -> None:
    """Forward and backward both have an `add` and a `buf0`."""

    def add(label: str) -> GraphOp:
        return GraphOp("add", "aten.add.Tensor", ("x",), (4,), "float32", f"{label}.py:1", graph=label, label=label)

    def kernel(label: str, *, writes: tuple[str, ...] = (), reads: tuple[str, ...] = ()) -> Kernel:
        return Kernel(f"triton_{label}", "triton", ("aten.add",), writes=writes, reads=reads, graph=label, label=label)

    ops = (add("forward"), add("backward"))
    kernels = (kernel("forward", writes=("buf0",)), kernel("backward", reads=("buf0",)))
    picture = graph(replace(samples.observation(), graph=Graph(ops), kernels=kernels))
    titles = [box.title.split(" = ")[0] for box in picture.boxes if box.kind == "op"]
    assert titles == ["forward.add", "backward.add"]
    assert [box.band for box in picture.boxes if box.kind == "op"] == [0, 1]
    assert not [edge for edge in picture.edges if edge.kind == "trip"]  # two tensors that are called alike


def test_decomposed_operators_follow_their_line_and_constants_their_reader() -> None:
    def op(name: str, target: str, inputs: tuple[str, ...], source: str) -> GraphOp:
        return GraphOp(name, target, inputs, (4,), "float32", source)

    kernels = (
        Kernel("mm", "extern", ("aten.mm",), source_lines=("m.py:1",)),
        Kernel("triton_gelu", "triton", ("aten.gelu",), source_lines=("m.py:2",)),
        Kernel("mm", "extern", ("aten.gelu", "aten.mm"), source_lines=("m.py:2", "m.py:3")),
    )
    ops = (
        op("full", "aten.full.default", (), "m.py:2"),
        op("mm", "aten.mm.default", ("x", "w"), "m.py:1"),
        op("mul", "aten.mul.Tensor", ("mm", "full"), "m.py:2"),
        op("erf", "aten.erf.default", ("mul",), "m.py:2"),
        op("view", "aten.view.default", ("erf",), "m.py:3"),
        op("mm_1", "aten.mm.default", ("view", "w"), "m.py:3"),
    )
    assert kernel_of_each_op(ops, kernels) == {"mm": 0, "full": 1, "mul": 1, "erf": 1, "view": 1, "mm_1": 2}


@pytest.mark.parametrize(
    ("text", "width", "shown"), [("short", 100, "short"), ("a" * 30, 67, "a" * 9 + "…"), ("中" * 9, 67, "中" * 4 + "…")]
)
def test_texts_are_cut_to_fit(text: str, width: float, shown: str) -> None:
    assert fit(text, width) == shown
