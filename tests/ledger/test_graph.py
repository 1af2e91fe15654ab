"""Bytes and round trips of graphs, by hand and by conservation of bytes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilesight.ledger import (
    HandOver,
    KernelTrafficEstimate,
    Ledger,
    OpTraffic,
    RoundTrip,
    account,
    hand_overs,
    ideal_bytes,
    moved_bytes,
    round_trips,
)

N = 1000


def op(name: str, reads: dict[str, int], writes: dict[str, int], *, is_view: bool = False) -> OpTraffic:
    return OpTraffic(name, f"aten.{name}", tuple(reads.items()), tuple(writes.items()), is_view)


ADD = op("add", {"x": 4 * N, "y": 4 * N}, {"add": 4 * N})
RELU = op("relu", {"add": 4 * N}, {"relu": 4 * N})


def test_add_relu_moves_20n_eagerly_and_12n_fused() -> None:
    fused = KernelTrafficEstimate("triton_add_relu", (("x", 4 * N), ("y", 4 * N)), (("out", 4 * N),))
    ledger = account([ADD, RELU], [fused], outputs=["relu"], kernel_outputs=["out"])
    assert ledger == Ledger(
        eager_bytes=20 * N,
        compiled_bytes=12 * N,
        ideal_bytes=12 * N,
        round_trips=(),
        eager_round_trips=(RoundTrip("add", 8 * N, "add", ("relu",)),),
    )


def test_kernels_that_were_not_fused_make_a_round_trip() -> None:
    kernels = [
        KernelTrafficEstimate("k0", (("x", 40),), (("buf0", 40),)),
        KernelTrafficEstimate("k1", (("buf0", 40),), (("buf1", 8),)),
        KernelTrafficEstimate("k2", (("buf0", 40), ("buf1", 8)), (("buf2", 40),)),
    ]
    assert round_trips(kernels, ["buf2"]) == (
        RoundTrip("buf0", 120, "k0", ("k1", "k2")),
        RoundTrip("buf1", 16, "k1", ("k2",)),
    )
    assert account(None, kernels, kernel_outputs=["buf2"]).compiled_bytes == 216


def test_a_road_that_is_absent_is_not_measured() -> None:
    assert account(None) == Ledger(None, None, None)
    assert account([], []) == Ledger(0, 0, 0)


def test_views_move_nothing_and_keep_their_tensors_name() -> None:
    ops = [
        op("exp", {"x": 400}, {"exp": 400}),
        op("view", {"exp": 400}, {"view": 400}, is_view=True),
        op("permute", {"view": 400}, {"permute": 400}, is_view=True),
        op("neg", {"permute": 400}, {"neg": 400}),
    ]
    assert moved_bytes(ops) == 1600
    assert round_trips(ops, ["neg"]) == (RoundTrip("exp", 800, "exp", ("neg",)),)
    assert ideal_bytes(ops, ["neg"]) == 800


def test_an_op_reads_a_repeated_input_once() -> None:
    square = OpTraffic("mul", "aten.mul", (("x", 40), ("x", 40)), (("mul", 40),))
    assert moved_bytes([square]) == 80


def test_an_input_read_by_two_ops_is_ideal_once_and_no_round_trip() -> None:
    ops = [op("a", {"x": 40}, {"a": 40}), op("b", {"x": 40}, {"b": 40})]
    assert moved_bytes(ops) == 160
    assert ideal_bytes(ops, ["a", "b"]) == 120
    assert round_trips(ops, ["a", "b"]) == ()


def test_parts_of_an_input_count_as_parts() -> None:
    halves = [
        op("left", {"x": 80}, {"left": 40}, is_view=True),
        op("right", {"x": 80}, {"right": 40}, is_view=True),
    ]
    both = [*halves, op("mul", {"left": 40, "right": 40}, {"mul": 40})]
    one = [*halves, op("neg", {"left": 40}, {"neg": 40})]
    assert ideal_bytes(both, ["mul"]) == 120
    assert ideal_bytes(one, ["neg"]) == 80


def test_two_views_of_the_whole_input_are_one_input() -> None:
    ops = [
        op("t", {"x": 80}, {"t": 80}, is_view=True),
        op("mm", {"x": 80, "t": 80}, {"mm": 20}),
    ]
    assert ideal_bytes(ops, ["mm"]) == 100


def test_an_output_that_is_used_again_costs_its_loads_only() -> None:
    assert round_trips([ADD, RELU], ["add", "relu"]) == (RoundTrip("add", 4 * N, "add", ("relu",)),)
    assert ideal_bytes([ADD, RELU], ["add", "relu"]) == 16 * N


def test_returning_an_input_costs_nothing() -> None:
    view = op("view", {"x": 40}, {"view": 40}, is_view=True)
    assert ideal_bytes([view], ["view"]) == 0
    assert ideal_bytes([RELU], ["relu", "add"]) == 8 * N


def test_an_unused_input_costs_nothing() -> None:
    assert ideal_bytes([op("full", {}, {"full": 40})], ["full"]) == 40


def test_an_input_written_in_place_is_an_output() -> None:
    ops = [op("mul", {"buffer": 40}, {"mul": 40}), op("copy_", {"mul": 40}, {"buffer": 40})]
    assert ideal_bytes(ops, []) == 80
    assert round_trips(ops) == (RoundTrip("mul", 80, "mul", ("copy_",)),)


def test_a_reused_buffer_is_a_new_tensor() -> None:
    kernels = [
        KernelTrafficEstimate("k0", (("x", 40),), (("buf0", 40),)),
        KernelTrafficEstimate("k1", (("buf0", 40),), (("buf0", 40),)),
        KernelTrafficEstimate("k2", (("buf0", 40),), (("buf1", 40),)),
    ]
    assert round_trips(kernels, ["buf1"]) == (
        RoundTrip("buf0", 80, "k0", ("k1",)),
        RoundTrip("buf0", 80, "k1", ("k2",)),
    )


def test_a_row_that_is_written_in_place_leaves_the_rest_of_the_input_to_be_read() -> None:
    """A cache of 100 rows of 40 bytes: one is stored, then all are read; 99 of them come from the input."""
    kernels = [
        KernelTrafficEstimate("store", (("new", 40),), (("cache", 40),), held=(("cache", 4000),)),
        KernelTrafficEstimate("sum", (("cache", 4000),), (("buf0", 4),)),
    ]
    assert round_trips(kernels, ["buf0"]) == (RoundTrip("cache", 40, "store", ("sum",)),)
    assert hand_overs(kernels, ["buf0"]) == (HandOver("cache", 0, 1, 40, 0),)
    ops = [
        op("slice", {"cache": 4000}, {"row": 40}, is_view=True),
        op("copy_", {"new": 40}, {"row": 40}),
        op("sum", {"cache": 4000}, {"sum": 4}),
    ]
    assert ideal_bytes(ops, ["sum"]) == 40 + 40 + 3960 + 4
    assert round_trips(ops, ["sum"]) == (RoundTrip("cache", 40, "copy_", ("sum",)),)


def test_a_tensor_that_two_steps_write_in_halves_comes_from_both() -> None:
    ops = [
        op("left", {"out": 80}, {"out[0]": 40}, is_view=True),
        op("right", {"out": 80}, {"out[1]": 40}, is_view=True),
        op("exp", {"x": 40}, {"out[0]": 40}),
        op("sin", {"x": 40}, {"out[1]": 40}),
        op("neg", {"out": 80}, {"neg": 80}),
        op("cos", {"out[0]": 40}, {"cos": 40}),
    ]
    assert round_trips(ops, ["neg", "cos"]) == (
        RoundTrip("out", 40 + 40 + 40, "exp", ("neg", "cos")),
        RoundTrip("out", 40 + 40, "sin", ("neg",)),
    )
    assert ideal_bytes(ops, ["neg", "cos"]) == 40 + 80 + 40
    assert ideal_bytes(ops, ["out", "neg", "cos"]) == 40 + 80 + 80 + 40


def test_parts_that_overlap_share_as_little_as_their_sizes_allow() -> None:
    """Half of x is scaled, all but its first row are added to, all of it is read: nothing is counted twice."""
    ops = [
        op("half", {"x": 2048}, {"x[0]": 1024}, is_view=True),
        op("rest", {"x": 2048}, {"x[1]": 2044}, is_view=True),
        op("mul_", {"x[0]": 1024}, {"x[0]": 1024}),
        op("add_", {"x[1]": 2044, "y": 2044}, {"x[1]": 2044}),
        op("neg", {"x": 2048}, {"neg": 2048}),
    ]
    assert ideal_bytes(ops, ["neg"]) == 2048 + 2044 + 2048 + 2048
    assert round_trips(ops, ["neg"]) == (
        RoundTrip("x", 1020 + 4, "mul_", ("add_", "neg")),
        RoundTrip("x", 2044, "add_", ("neg",)),
    )


def test_a_part_that_is_written_again_is_what_is_read() -> None:
    ops = [
        op("row", {"x": 400}, {"x[0]": 40}, is_view=True),
        op("exp", {"y": 40}, {"x[0]": 40}),
        op("neg_", {"x[0]": 40}, {"x[0]": 40}),
        op("sum", {"x": 400}, {"sum": 4}),
    ]
    assert round_trips(ops, ["sum"]) == (RoundTrip("x", 80, "exp", ("neg_",)), RoundTrip("x", 40, "neg_", ("sum",)))
    assert ideal_bytes(ops, ["sum"]) == 40 + 40 + 360 + 4


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[OpTraffic], list[str]]:
    """A random graph without views whose every op is used or returned."""
    sizes = {name: draw(st.integers(1, 50)) for name in ("in0", "in1", "in2")}
    ops: list[OpTraffic] = []
    used: set[str] = set()
    for index in range(draw(st.integers(1, 8))):
        reads = draw(st.lists(st.sampled_from(sorted(sizes)), min_size=1, max_size=3, unique=True))
        name = f"op{index}"
        size = draw(st.integers(1, 50))
        ops.append(op(name, {read: sizes[read] for read in reads}, {name: size}))
        used.update(reads)
        sizes[name] = size
    produced = {each.name for each in ops}
    returned = draw(st.sets(st.sampled_from(sorted(produced)))) | (produced - used)
    return ops, sorted(returned)


@given(chains())
@settings(max_examples=200, deadline=None)
def test_eager_bytes_are_ideal_plus_round_trips_plus_rereads(graph: tuple[list[OpTraffic], list[str]]) -> None:
    ops, outputs = graph
    reads_of_inputs = [each for step in ops for each in step.reads if each[0].startswith("in")]
    reread_bytes = sum(size for _, size in reads_of_inputs) - sum(dict(reads_of_inputs).values())
    trips = sum(trip.bytes for trip in round_trips(ops, outputs))
    assert moved_bytes(ops) == ideal_bytes(ops, outputs) + trips + reread_bytes
