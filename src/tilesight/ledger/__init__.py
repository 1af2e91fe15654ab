"""Bytes: of one launch by line and tensor, and of a graph on each road."""

from __future__ import annotations

from tilesight.ledger.account import account
from tilesight.ledger.graph import KernelTrafficEstimate, OpTraffic, ideal_bytes, moved_bytes, round_trips
from tilesight.ledger.model import AccessRow, Bytes, KernelTraffic, Ledger, RoundTrip
from tilesight.ledger.traffic import TrafficListener

__all__ = [
    "AccessRow",
    "Bytes",
    "KernelTraffic",
    "KernelTrafficEstimate",
    "Ledger",
    "OpTraffic",
    "RoundTrip",
    "TrafficListener",
    "account",
    "ideal_bytes",
    "moved_bytes",
    "round_trips",
]
