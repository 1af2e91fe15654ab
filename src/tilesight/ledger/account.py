"""The door: a graph's ops and its kernels become a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from tilesight.ledger.graph import KernelTrafficEstimate, OpTraffic, ideal_bytes, moved_bytes, round_trips
from tilesight.ledger.model import Ledger, RoundTrip


def account(
    ops: Sequence[OpTraffic] | None,
    kernels: Sequence[KernelTrafficEstimate] | None = None,
    *,
    outputs: Sequence[str] = (),
    kernel_outputs: Sequence[str] = (),
) -> Ledger:
    """Bytes of one graph run op by op, compiled and ideally, with the round trips of the first two, the dearest first.

    A road that is None is not measured, which differs from an empty one that moves nothing.

    Args:
        ops: the graph's ops in order, views marked
        kernels: the compiled kernels in launch order, extern calls included
        outputs: names of `ops`' tensors that the graph returns
        kernel_outputs: names of `kernels`' buffers that it returns; `outputs` when empty
    """
    returned_buffers = kernel_outputs or outputs
    return Ledger(
        eager_bytes=None if ops is None else moved_bytes(ops),
        compiled_bytes=None if kernels is None else moved_bytes(kernels),
        ideal_bytes=None if ops is None else ideal_bytes(ops, outputs),
        round_trips=() if kernels is None else _by_cost(round_trips(kernels, returned_buffers)),
        eager_round_trips=() if ops is None else _by_cost(round_trips(ops, outputs)),
    )


def _by_cost(trips: Sequence[RoundTrip]) -> tuple[RoundTrip, ...]:
    """The dearest first; what costs the same in the order of the calls."""
    return tuple(sorted(trips, key=lambda trip: -trip.bytes))
