"""Kernels' bytes where tensors are too large to run: addresses of a few programs, on tensors without memory."""

from __future__ import annotations

from dataclasses import replace

import torch

from tilesight.capture.inductor.graph import CompiledGraph
from tilesight.capture.inductor.standalone import Operand, StandaloneLaunch, layouts_of, stand_alone
from tilesight.capture.launches import EngineSession
from tilesight.capture.scaled import LookingSession, virtual_tensor
from tilesight.engine import Launch
from tilesight.errors import TilesightError
from tilesight.ir import Module
from tilesight.ledger.model import KernelTraffic
from tilesight.ledger.sampled import SampledBytes, sample_bytes
from tilesight.targets import Target

_Key = tuple[str, tuple[Operand | float, ...]]


def sampled_traffic(graph: CompiledGraph, target: Target) -> tuple[list[KernelTraffic | None], tuple[str, ...]]:
    """The traffic of each call of the graphs, None for extern calls; and what was run of it.

    A kernel that is called again with tensors of the same layout is looked at once.
    """
    known: dict[_Key, SampledBytes | None] = {}
    found: list[KernelTraffic | None] = []
    notes: list[str] = []
    for region in graph.regions:
        layouts = layouts_of(region)
        for call in region.calls:
            try:
                seen = _sampled(stand_alone(region, call, layouts), target, known) if call.is_triton else None
            except TilesightError as error:
                notes.append(f"{call.kernel}: bytes unknown: {error}")
                found.append(None)
                continue
            if call.is_triton and seen is None:
                notes.append(f"{call.kernel}: bytes unknown: one of its programs walks too much to be run here")
            found.append(None if seen is None else KernelTraffic((), seen.bytes))
    return found, (*_told([each for each in known.values() if each is not None]), *dict.fromkeys(notes))


def _sampled(launch: StandaloneLaunch, target: Target, known: dict[_Key, SampledBytes | None]) -> SampledBytes | None:
    nameless = [replace(each, buffer="") if isinstance(each, Operand) else each for each in launch.arguments]
    key = (launch.kernel.source, tuple(nameless))
    if key not in known:
        known[key] = _look(launch, target)
    return known[key]


def _look(launch: StandaloneLaunch, target: Target) -> SampledBytes | None:
    seen: list[SampledBytes | None] = []

    def inspect(module: Module, looked_at: Launch) -> None:
        seen.append(sample_bytes(module, looked_at))

    tensors = [virtual_tensor(each.shape, getattr(torch, each.dtype), each.strides) for each in launch.operands]
    session: EngineSession = LookingSession(int(target.arch), inspect)
    with session:
        launch.run(tensors)
    return seen[0] if seen else None


def _told(seen: list[SampledBytes]) -> tuple[str, ...]:
    """Say that it is a sample, and how large."""
    sampled = [each for each in seen if each.ran < each.programs]
    if not sampled:
        return ()
    ran, programs = sum(each.ran for each in sampled), sum(each.programs for each in sampled)
    text = f"kernel bytes: {ran} of {programs:,} programs of {len(sampled)} kernels were run, on tensors without memory"
    uneven = sum(not each.is_uniform for each in sampled)
    more = f"; programs of {uneven} kernels differ, so theirs are estimates" if uneven else ""
    return (f"{text}; touched is at most that{more}",)
