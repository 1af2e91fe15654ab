"""Bytes of a launch, against values counted by hand and against sets of addresses."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.ledger.launches import lane_addresses, make_access, make_memory
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Access
from tilesight.ledger import KernelTraffic, TrafficListener

I64 = np.int64


def traffic_of(*accesses: Access) -> KernelTraffic:
    listener = TrafficListener()
    for access in accesses:
        listener.before_access(access)
        listener.after_access(access)
    return listener.traffic()


def tile_offsets(programs: int, block: int) -> NDArray[np.int64]:
    return np.arange(programs, dtype=I64)[:, None] * block + np.arange(block, dtype=I64)


def test_a_masked_tail_requests_only_its_lanes() -> None:
    x, out = make_memory("x", 10), make_memory("out", 10, address=8192)
    offsets = tile_offsets(3, 4)
    mask = offsets < 10
    traffic = traffic_of(
        make_access("load", x, lane_addresses(x, offsets), mask=mask, line=7),
        make_access("store", out, lane_addresses(out, offsets), mask=mask, line=9),
    )
    load, store = traffic.rows
    assert (load.kind, load.line, load.tensor) == ("load", 7, "x")
    assert (load.lanes, load.masked_lanes, load.bytes, load.touched) == (12, 2, 40, 40)
    assert (store.kind, store.line, store.tensor) == ("store", 9, "out")
    assert (store.lanes, store.masked_lanes, store.bytes, store.touched) == (12, 2, 40, 40)
    assert (traffic.bytes.requested, traffic.bytes.touched, traffic.bytes.dram) == (80, 80, None)


def test_out_of_bounds_lanes_are_counted_apart() -> None:
    x = make_memory("x", 6)
    offsets = tile_offsets(2, 4)
    traffic = traffic_of(
        make_access("load", x, lane_addresses(x, offsets), out_of_bounds=offsets >= 6),
    )
    (row,) = traffic.rows
    assert (row.lanes, row.masked_lanes, row.out_of_bounds_lanes) == (8, 0, 2)
    assert (row.bytes, row.touched) == (24, 24)


def test_a_masked_lane_outside_is_not_out_of_bounds() -> None:
    x = make_memory("x", 5)
    offsets = tile_offsets(2, 4)
    mask = offsets < 7
    traffic = traffic_of(
        make_access("load", x, lane_addresses(x, offsets), mask=mask, out_of_bounds=mask & (offsets >= 5)),
    )
    (row,) = traffic.rows
    assert (row.masked_lanes, row.out_of_bounds_lanes, row.bytes, row.touched) == (1, 2, 20, 20)


def test_extent_one_axes_count_in_full() -> None:
    """A column address [P, 1] in a block [P, 8] requests 8 lanes a program but touches one element each."""
    x = make_memory("x", 4)
    address = lane_addresses(x, np.arange(4, dtype=I64)[:, None])
    traffic = traffic_of(make_access("load", x, address, shape=(4, 8)))
    (row,) = traffic.rows
    assert (row.lanes, row.bytes, row.touched) == (32, 128, 16)


def test_a_mask_that_varies_on_another_axis_than_the_address() -> None:
    x = make_memory("x", 4)
    address = lane_addresses(x, np.arange(4, dtype=I64)[:, None])
    mask = np.array([[True, False, True]])
    traffic = traffic_of(make_access("load", x, address, shape=(4, 3), mask=mask))
    (row,) = traffic.rows
    assert (row.lanes, row.masked_lanes, row.bytes, row.touched) == (12, 4, 32, 16)


def test_broadcast_views_are_not_expanded() -> None:
    x = make_memory("x", 4)
    column = lane_addresses(x, np.arange(4, dtype=I64)[:, None])
    address = np.broadcast_to(column, (4, 1 << 20))
    traffic = traffic_of(make_access("load", x, address))
    assert (traffic.bytes.requested, traffic.bytes.touched) == (4 * 4 << 20, 16)


def test_two_lines_and_iterations_share_a_tensor() -> None:
    """Line 5 reads the first half twice, line 6 all of it: each element is touched once for reading."""
    x = make_memory("x", 8)
    half, whole = tile_offsets(1, 4), tile_offsets(1, 8)
    traffic = traffic_of(
        make_access("load", x, lane_addresses(x, half), line=5),
        make_access("load", x, lane_addresses(x, half), line=5),
        make_access("load", x, lane_addresses(x, whole), line=6),
    )
    first, second = traffic.rows
    assert (first.lanes, first.bytes, first.touched) == (8, 32, 16)
    assert (second.lanes, second.bytes, second.touched) == (8, 32, 32)
    assert (traffic.bytes.requested, traffic.bytes.touched) == (64, 32)


def test_reading_and_writing_in_place_touches_twice() -> None:
    x = make_memory("x", 8)
    offsets = tile_offsets(2, 4)
    traffic = traffic_of(
        make_access("load", x, lane_addresses(x, offsets), line=3),
        make_access("store", x, lane_addresses(x, offsets), line=4),
    )
    assert traffic.bytes.touched == 64


def test_an_atomic_touches_both_ways() -> None:
    x = make_memory("x", 1)
    offsets = np.zeros((5, 1), dtype=I64)
    traffic = traffic_of(make_access("atomic", x, lane_addresses(x, offsets)))
    (row,) = traffic.rows
    assert (row.kind, row.bytes, row.touched) == ("atomic", 20, 4)
    assert (traffic.bytes.requested, traffic.bytes.touched) == (20, 8)


def test_two_parameters_of_one_tensor_are_one_tensor() -> None:
    """The same storage under two parameters, and a half-width view that overlaps it."""
    a = make_memory("a", 8, address=4096)
    b = make_memory("b", 8, address=4096)
    tail = make_memory("tail", 8, address=4096 + 16, item_bytes=2)
    offsets = tile_offsets(1, 8)
    traffic = traffic_of(
        make_access("load", a, lane_addresses(a, offsets)),
        make_access("load", b, lane_addresses(b, offsets)),
        make_access("load", tail, lane_addresses(tail, offsets), item_bytes=2),
    )
    assert [row.tensor for row in traffic.rows] == ["a", "b", "tail"]
    assert (traffic.bytes.requested, traffic.bytes.touched) == (80, 32)


def test_overlapping_tensors_of_different_extent() -> None:
    whole = make_memory("whole", 8, address=4096)
    view = make_memory("view", 8, address=4096 + 16)
    offsets = tile_offsets(1, 8)
    traffic = traffic_of(
        make_access("load", whole, lane_addresses(whole, offsets)),
        make_access("load", view, lane_addresses(view, offsets)),
    )
    assert traffic.bytes.touched == 12 * 4


def test_a_wider_access_covers_several_elements() -> None:
    x = make_memory("x", 8)
    address = x.address + np.array([[0, 16]], dtype=I64)
    traffic = traffic_of(make_access("load", x, address, item_bytes=8))
    (row,) = traffic.rows
    assert (row.bytes, row.touched) == (16, 16)
    run = traffic_of(make_access("load", x, x.address + np.array([[0, 8]], dtype=I64), item_bytes=8))
    assert run.bytes.touched == 16


def test_a_narrower_access_counts_whole_elements() -> None:
    x = make_memory("x", 4, item_bytes=4)
    address = x.address + np.arange(3, 6, dtype=I64)[None]
    assert traffic_of(make_access("load", x, address, item_bytes=1)).bytes.touched == 8


def test_an_unknown_tensor_is_counted_by_address() -> None:
    address = np.array([[64, 68, 64, 72]], dtype=I64)
    traffic = traffic_of(make_access("load", None, address), make_access("load", None, address, line=11))
    assert [row.tensor for row in traffic.rows] == ["unknown tensor"] * 2
    assert [row.touched for row in traffic.rows] == [12, 12]
    assert (traffic.bytes.requested, traffic.bytes.touched) == (32, 12)


def test_the_callers_name_wins_over_the_parameters() -> None:
    memory = make_memory("x_ptr", 4)
    named = replace(memory, tensor_name="logits")
    (row,) = traffic_of(make_access("load", named, lane_addresses(named, tile_offsets(1, 4)))).rows
    assert row.tensor == "logits"


def test_a_second_launch_starts_anew() -> None:
    x = make_memory("x", 4)
    listener = TrafficListener()
    listener.after_access(make_access("load", x, lane_addresses(x, tile_offsets(1, 4))))
    assert listener.traffic().bytes.requested == 16
    listener.launch_begins(Launch("kernel", "", (), (1, 1, 1)))
    assert listener.traffic().rows == ()
    assert listener.traffic().bytes.touched == 0


@st.composite
def access_lists(draw: st.DrawFn) -> list[Access]:
    """Accesses to two tensors with random blocks, strides, masks and broadcast axes."""
    memories = [
        make_memory("x", 40, address=4096),
        make_memory("y", 24, address=1 << 20, item_bytes=draw(st.sampled_from([2, 4, 6]))),
    ]
    accesses: list[Access] = []
    for _ in range(draw(st.integers(1, 6))):
        memory = draw(st.sampled_from(memories))
        shape = draw(st.sampled_from([(1, 4), (3, 4), (2, 2, 3), (5, 1)]))
        extents = tuple(draw(st.sampled_from([1, extent])) for extent in shape)
        strides = [draw(st.integers(0, 4)) for _ in shape]
        offsets = np.full(extents, draw(st.integers(0, 12)), dtype=I64)
        for axis, stride in enumerate(strides):
            ramp = np.arange(extents[axis], dtype=I64) * stride
            offsets = offsets + ramp.reshape([-1 if each == axis else 1 for each in range(len(shape))])
        mask_extents = tuple(draw(st.sampled_from([1, extent])) for extent in shape)
        bits = draw(st.none() | st.lists(st.booleans(), min_size=60, max_size=60))
        mask = None if bits is None else np.resize(np.array(bits), mask_extents)
        outside = np.broadcast_to(offsets >= memory.elements, shape)
        if mask is not None:
            outside = outside & mask
        accesses.append(
            make_access(
                draw(st.sampled_from(["load", "store", "atomic"])),
                memory,
                lane_addresses(memory, offsets),
                shape=shape,
                mask=mask,
                out_of_bounds=outside if outside.any() else None,
                line=draw(st.integers(1, 3)),
                item_bytes=memory.item_bytes,
            )
        )
    return accesses


def brute_force(accesses: list[Access]) -> tuple[dict[tuple[str, int, str], list[int]], int, int]:
    """(lanes, masked, out of bounds, requested, touched) by row, and the kernel's requested and touched."""
    rows: dict[tuple[str, int, str], list[int]] = {}
    row_sets: dict[tuple[str, int, str], set[int]] = {}
    touched: dict[tuple[str, int], int] = {}
    requested = 0
    for access in accesses:
        assert access.memory is not None
        key = (access.kind, access.location.line, access.memory.name)
        counts = rows.setdefault(key, [0, 0, 0, 0, 0])
        address = np.broadcast_to(access.address, access.shape)
        mask = np.broadcast_to(True if access.mask is None else access.mask, access.shape)
        for lane in np.ndindex(*access.shape):
            counts[0] += 1
            inside = 0 <= int(address[lane]) - access.memory.address < access.memory.data.nbytes
            counts[1] += not mask[lane]
            counts[2] += bool(mask[lane]) and not inside
            if not (mask[lane] and inside):
                continue
            counts[3] += access.item_bytes
            requested += access.item_bytes
            row_sets.setdefault(key, set()).add(int(address[lane]))
            ways = {"load": ["r"], "store": ["w"], "atomic": ["r", "w"]}[access.kind]
            touched.update({(way, int(address[lane])): access.item_bytes for way in ways})
        counts[4] = len(row_sets.get(key, set())) * access.item_bytes
    return rows, requested, sum(touched.values())


@given(access_lists())
@settings(max_examples=200, deadline=None)
def test_counts_equal_those_of_sets_of_addresses(accesses: list[Access]) -> None:
    rows, requested, touched = brute_force(accesses)
    traffic = traffic_of(*accesses)
    counted = {
        (row.kind, row.line, row.tensor): [
            row.lanes,
            row.masked_lanes,
            row.out_of_bounds_lanes,
            row.bytes,
            row.touched,
        ]
        for row in traffic.rows
    }
    assert counted == rows
    assert (traffic.bytes.requested, traffic.bytes.touched) == (requested, touched)


@pytest.mark.parametrize("shuffled", [False, True])
def test_runs_longer_than_a_block_of_lanes(shuffled: bool) -> None:
    elements = 100_003
    x = make_memory("x", elements)
    offsets = np.arange(elements, dtype=I64)
    if shuffled:
        offsets[[1, -2]] = offsets[[-2, 1]]
    traffic = traffic_of(make_access("load", x, lane_addresses(x, offsets[None])))
    assert traffic.bytes.touched == elements * 4


def test_one_gap_past_the_first_block_is_seen() -> None:
    """The ends fit a full run, one address repeats: the count must not trust the ends."""
    elements = 100_000
    x = make_memory("x", elements)
    offsets = np.arange(elements, dtype=I64)
    offsets[70_000] = 69_999
    traffic = traffic_of(make_access("load", x, lane_addresses(x, offsets[None])))
    assert traffic.bytes.touched == (elements - 1) * 4


def test_a_vector_add_of_16_million_costs_little() -> None:
    """Measured 0.07 s on a quiet 2-core machine; the limit leaves room for a busy one."""
    programs, block = 16_384, 1024
    offsets = tile_offsets(programs, block)
    mask = offsets < programs * block
    tensors = [make_memory(name, programs * block, address=(at + 1) << 32) for at, name in enumerate("xyz")]
    accesses = [
        make_access("store" if memory.name == "z" else "load", memory, lane_addresses(memory, offsets), mask=mask)
        for memory in tensors
    ]
    start = time.perf_counter()
    traffic = traffic_of(*accesses)
    assert time.perf_counter() - start < 1.0
    assert traffic.bytes.touched == 3 * 4 * programs * block
