"""Hand-made tensors and accesses, so that the ledger is tested without the engine's interpreter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.launch import Memory
from tilesight.engine.listener import Access, AccessKind
from tilesight.ir.module import Location, Operation


def make_memory(name: str, elements: int, *, address: int = 4096, item_bytes: int = 4) -> Memory:
    return Memory(
        name=name,
        address=address,
        data=np.zeros(elements * item_bytes, dtype=np.uint8),
        dtype="float32",
        item_bytes=item_bytes,
        shape=(elements,),
        strides=(1,),
        pointer=address,
    )


def make_access(
    kind: AccessKind,
    memory: Memory | None,
    address: NDArray[np.int64],
    *,
    shape: tuple[int, ...] | None = None,
    mask: NDArray[np.bool_] | None = None,
    out_of_bounds: NDArray[np.bool_] | None = None,
    line: int = 10,
    item_bytes: int = 4,
) -> Access:
    full = shape or address.shape
    return Access(
        kind=kind,
        operation=Operation(f"tt.{kind}"),
        location=Location("kernel.py", line),
        memory=memory,
        programs=np.arange(full[0], dtype=np.int64),
        shape=full,
        lanes=address,
        mask=mask,
        out_of_bounds=out_of_bounds,
        item_bytes=item_bytes,
        values=None,
    )


def lane_addresses(memory: Memory, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    return memory.address + offsets * memory.item_bytes
