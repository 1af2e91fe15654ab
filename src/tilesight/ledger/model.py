"""What the ledger says: bytes of a kernel by line and tensor, and the round trips of a graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bytes:
    """Bytes through global memory; None means not measured.

    Args:
        requested: item size of every unmasked lane of every access, repeats counted
        touched: unique bytes, each tensor element counted once for reading and once for writing
        dram: bytes from and to DRAM after an L2 model
    """

    requested: int | None = None
    touched: int | None = None
    dram: int | None = None


@dataclass(frozen=True)
class AccessRow:
    """One load, store or atomic of the kernel's source.

    Args:
        kind: load, store or atomic
        line: line in the kernel's file (1-based)
        tensor: the tensor's name
        lanes: lanes in all programs and iterations, masked-off ones included
        masked_lanes: lanes that the mask switched off
        bytes: bytes requested by the lanes that were on
        touched: unique bytes among them
        out_of_bounds_lanes: lanes that were on and lay outside the tensor
    """

    kind: str
    line: int
    tensor: str
    lanes: int
    masked_lanes: int
    bytes: int
    touched: int
    out_of_bounds_lanes: int = 0


@dataclass(frozen=True)
class KernelTraffic:
    """The traffic of one launch."""

    rows: tuple[AccessRow, ...]
    bytes: Bytes


@dataclass(frozen=True)
class RoundTrip:
    """An intermediate stored to HBM by one kernel and loaded by another.

    Args:
        tensor: the intermediate's name
        bytes: stored once plus loaded once by each reader
        written_by, read_by: kernel or operator names
    """

    tensor: str
    bytes: int
    written_by: str
    read_by: tuple[str, ...]


@dataclass(frozen=True)
class Ledger:
    """Bytes of one graph on each road; None means not measured.

    `ideal_bytes` counts each graph input once and each output once.
    """

    eager_bytes: int | None
    compiled_bytes: int | None
    ideal_bytes: int | None
    round_trips: tuple[RoundTrip, ...] = ()
    eager_round_trips: tuple[RoundTrip, ...] = ()
