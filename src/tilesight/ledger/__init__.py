"""Bytes: of one launch by line and tensor, and of a graph on each road."""

from __future__ import annotations

from tilesight.ledger.account import account
from tilesight.ledger.graph import (
    HandOver,
    KernelTrafficEstimate,
    OpTraffic,
    hand_overs,
    ideal_bytes,
    moved_bytes,
    round_trips,
)
from tilesight.ledger.model import AccessRow, Bytes, KernelTraffic, Ledger, RoundTrip
from tilesight.ledger.traffic import TrafficListener

__all__ = [
    "AccessRow",
    "Bytes",
    "HandOver",
    "KernelTraffic",
    "KernelTrafficEstimate",
    "Ledger",
    "OpTraffic",
    "RoundTrip",
    "TrafficListener",
    "account",
    "hand_overs",
    "ideal_bytes",
    "moved_bytes",
    "round_trips",
]
