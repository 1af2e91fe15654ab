"""Counts the bytes of a launch while it runs: by source line and tensor, and for the whole kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.launch import Launch
from tilesight.engine.listener import Access, AccessKind, Listener
from tilesight.ledger.model import AccessRow, Bytes, KernelTraffic
from tilesight.ledger.touched import TouchedElements, count_unique_bytes

UNKNOWN_TENSOR = "unknown tensor"

TensorKey = tuple[int, int, int]


@dataclass
class _Row:
    """Running counts of one (kind, line, tensor)."""

    kind: AccessKind
    line: int
    tensor: str
    lanes: int = 0
    masked_lanes: int = 0
    requested_bytes: int = 0
    out_of_bounds_lanes: int = 0
    touched: dict[TensorKey, TouchedElements] = field(default_factory=dict[TensorKey, TouchedElements])
    stray: dict[int, NDArray[np.int64]] = field(default_factory=dict[int, NDArray[np.int64]])

    def finish(self) -> AccessRow:
        return AccessRow(
            kind=self.kind,
            line=self.line,
            tensor=self.tensor,
            lanes=self.lanes,
            masked_lanes=self.masked_lanes,
            bytes=self.requested_bytes,
            touched=_count_touched([self]),
            out_of_bounds_lanes=self.out_of_bounds_lanes,
        )


class TrafficListener(Listener):
    """Builds the `KernelTraffic` of the launch it listens to.

    A lane counts towards `bytes` when its mask is on and its address lies in the tensor. The kernel's
    touched bytes count each element once for reading and once for writing, however many lines name
    it; an atomic requests its item once and touches it both ways. Caches are not modelled: `dram`
    stays None.
    """

    hears_in_any_order = True

    def __init__(self) -> None:
        self._rows: dict[tuple[AccessKind, int, str], _Row] = {}

    def launch_begins(self, launch: Launch) -> None:
        self._rows = {}

    def after_access(self, access: Access) -> None:
        row = self._row(access)
        lanes = _product(access.shape)
        active = lanes if access.mask is None else _count_lanes(access.mask, lanes)
        outside = 0 if access.out_of_bounds is None else _count_lanes(access.out_of_bounds, lanes)
        row.lanes += lanes
        row.masked_lanes += lanes - active
        row.requested_bytes += (active - outside) * access.item_bytes
        row.out_of_bounds_lanes += outside
        if active > outside:
            _mark(row, access, _flat_addresses(access.address, _valid_lanes(access, lanes, active, outside)))

    def traffic(self) -> KernelTraffic:
        """The counts so far, rows in the order of the kernel's lines."""
        rows = sorted(self._rows.values(), key=lambda row: row.line)
        reads = [row for row in rows if row.kind != "store"]
        writes = [row for row in rows if row.kind != "load"]
        requested = sum(row.requested_bytes for row in rows)
        touched = _count_touched(reads) + _count_touched(writes)
        return KernelTraffic(
            rows=tuple(row.finish() for row in rows),
            bytes=Bytes(requested=requested, touched=touched),
        )

    def _row(self, access: Access) -> _Row:
        memory = access.memory
        tensor = UNKNOWN_TENSOR if memory is None else memory.tensor_name or memory.name
        key = (access.kind, access.location.line, tensor)
        return self._rows.setdefault(key, _Row(*key))


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for extent in shape:
        product *= extent
    return product


def _count_lanes(flags: NDArray[np.bool_], lanes: int) -> int:
    """True lanes once `flags` is broadcast to `lanes`."""
    return int(np.count_nonzero(flags)) * (lanes // flags.size) if flags.size else 0


def _mark(row: _Row, access: Access, addresses: NDArray[np.int64]) -> None:
    memory = access.memory
    if memory is None:
        before = row.stray.get(access.item_bytes, np.empty(0, dtype=np.int64))
        row.stray[access.item_bytes] = np.union1d(before, addresses)
        return
    key = (memory.address, memory.data.nbytes, memory.item_bytes)
    if key not in row.touched:
        row.touched[key] = TouchedElements(memory)
    row.touched[key].mark(addresses, access.item_bytes)


def _valid_lanes(access: Access, lanes: int, active: int, outside: int) -> NDArray[np.bool_] | None:
    """The lanes that are on and inside the tensor; None when all are."""
    mask = access.mask if active < lanes else None
    if access.out_of_bounds is None or outside == 0:
        return mask
    inside = ~access.out_of_bounds
    return inside if mask is None else mask & inside


def _flat_addresses(address: NDArray[np.int64], valid: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """Addresses of the valid lanes; axes along which nothing varies appear once."""
    if valid is None:
        return address[_varying_axes(address)].reshape(-1)
    shape = np.broadcast_shapes(address.shape, valid.shape)
    address, valid = np.broadcast_to(address, shape), np.broadcast_to(valid, shape)
    axes = _varying_axes(address, valid)
    flat, flat_valid = address[axes].reshape(-1), valid[axes].reshape(-1)
    count = int(np.count_nonzero(flat_valid))
    is_prefix = bool(flat_valid[:count].all())
    return flat[:count] if is_prefix else flat[flat_valid]


def _varying_axes(*arrays: NDArray[np.generic]) -> tuple[slice, ...]:
    """An index that cuts to one every axis on which no array varies (NumPy strides of zero)."""
    return tuple(
        slice(None) if any(each.strides[axis] for each in arrays) else slice(0, 1) for axis in range(arrays[0].ndim)
    )


def _count_touched(rows: Iterable[_Row]) -> int:
    """Unique bytes over rows: by element within tensors, by address where the tensor is not known."""
    listed = list(rows)
    stray: dict[int, NDArray[np.int64]] = {}
    for row in listed:
        for item_bytes, addresses in row.stray.items():
            before = stray.get(item_bytes, np.empty(0, dtype=np.int64))
            stray[item_bytes] = np.union1d(before, addresses)
    stray_bytes = sum(addresses.size * item_bytes for item_bytes, addresses in stray.items())
    return stray_bytes + count_unique_bytes(part for row in listed for part in row.touched.values())
