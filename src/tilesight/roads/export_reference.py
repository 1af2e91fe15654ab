"""What an exported kernel is held against: the graph's operators where they agree with it, else itself as generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from tilesight.capture.inductor.fragment_reference import Reference, evaluate, references
from tilesight.capture.inductor.fragments import Fragment
from tilesight.capture.inductor.standalone import StandaloneLaunch
from tilesight.capture.numerics import TOLERANCES, judge
from tilesight.capture.tensors import dtype_name
from tilesight.errors import TilesightError
from tilesight.roads.traces import TraceObserver, traced

CHECK_LIMIT_BYTES = 64_000_000
"""A kernel whose tensors together stay under this is run on the engine, to see which reference it agrees with."""

FILE_TOLERANCES = {**TOLERANCES, "float8_e4m3fn": 7e-2, "float8_e5m2": 1.3e-1}
"""What an exported file takes for right: of fp8 a unit in the last place, since one rounding is half of it."""


@dataclass(frozen=True)
class Held:
    """What a kernel is held against.

    Args:
        reference: torch's operators; None where the kernel as generated takes their place
        are_positive: random floats are positive, since others give NaN
        reason: why there is no reference from the graph, or why it could not be confirmed here; may be empty
    """

    reference: Reference | None
    are_positive: bool = False
    reason: str = ""


def find_held(launch: StandaloneLaunch, fragment: Fragment | None, sizes: Mapping[str, int]) -> Held:
    """The first reading of the fragment that the generated kernel agrees with when the engine runs it.

    Of a kernel that is too large to run here the only reading is taken as it is; where there are several, none.
    """
    if fragment is None:
        return Held(None, reason="the generated code does not tell what the kernel computes")
    found = list(references(fragment, launch, sizes))
    if not found:
        return Held(None, reason="the graph's operators do not tell this kernel's part of the work alone")
    if launch.bytes <= CHECK_LIMIT_BYTES:
        return _confirmed(launch, found)
    limit = f"its tensors exceed the {CHECK_LIMIT_BYTES // 1_000_000} MB that are run here"
    if len(found) > 1:
        return Held(None, reason=f"the graph can be read in {len(found)} ways, and {limit}")
    return Held(found[0], reason=f"not confirmed, since {limit}")


def _confirmed(launch: StandaloneLaunch, found: Sequence[Reference]) -> Held:
    """The reading that agrees; with positive inputs where normal ones give NaN and they do not."""
    fallback: Held | None = None
    for are_positive in (False, True):
        before, after = (launch.make_tensors(are_positive=are_positive) for _ in range(2))
        try:
            traced(launch.run, TraceObserver(), after)
        except TilesightError as error:
            return Held(None, reason=f"the engine does not run it: {error}")
        for reference in found:
            expected = evaluate(reference, _by_parameter(launch, before))
            if expected is None or not _agrees(_by_parameter(launch, after), expected):
                continue
            if not any(value.isnan().any() for value in expected.values()):
                return Held(reference, are_positive)
            fallback = fallback or Held(reference, are_positive)
    return fallback or Held(None, reason="the kernel gives other numbers than the graph's operators above it")


def _by_parameter(launch: StandaloneLaunch, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {operand.parameter: tensor for operand, tensor in zip(launch.operands, tensors, strict=True)}


def _agrees(after: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> bool:
    for parameter, value in expected.items():
        got = after[parameter]
        if value.numel() != got.numel():
            return False
        verdict = judge(got, [value.reshape(got.shape)])
        if verdict.max_error > FILE_TOLERANCES.get(dtype_name(got.dtype), 0.0):
            return False
    return True
