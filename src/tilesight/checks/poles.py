"""Infinities that are a function's own value, such as 1 / 0 and log 0, as against numbers that grew too large."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilesight.checks.slices import flow_of
from tilesight.engine.communication import ATOMICS
from tilesight.ir.module import Module, Operation

DIVISIONS = frozenset({"arith.divf", "tt.precise_divf"})
LOGARITHMS = frozenset({"log", "log2", "log10", "logb"})
POLES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(LOGARITHMS, (0.0,)),
    "log1p": (-1.0,),
    "rsqrt": (0.0,),
    "rcp": (0.0,),
    "atanh": (-1.0, 1.0),
    "erfinv": (-1.0, 1.0),
    "erfcinv": (0.0, 2.0),
    "normcdfinv": (0.0, 1.0),
    "y0": (0.0,),
    "y1": (0.0,),
}
"""Functions of one number → where they are infinite; IEEE 754 §7.3 and §9.2.1 call these exact infinities."""

AT_WHOLE_NUMBERS = frozenset({"lgamma", "tgamma"})
"""Infinite at zero and at the negative whole numbers."""

KNOWN = POLES.keys() | AT_WHOLE_NUMBERS | {"pow"}

ACROSS_LANES = frozenset({"tt.reduce", "tt.scan", "tt.dot", "tt.dot_scaled", "tt.histogram", *ATOMICS})


def is_pole(operation: Operation, operands: Sequence[float], result: float) -> bool:
    """Whether a function is infinite at its operands themselves: nothing was too large for its type."""
    if not math.isinf(result) or not all(math.isfinite(each) for each in operands):
        return False
    if operation.name in DIVISIONS:
        return operands[1] == 0
    name = _function_name(operation)
    if name == "pow":
        return operands[0] == 0
    if name in AT_WHOLE_NUMBERS:
        return operands[0] <= 0 and operands[0] == math.floor(operands[0])
    return bool(operands) and operands[0] in POLES.get(name, ())


def _function_name(operation: Operation) -> str:
    """`log` of `math.log`, and of `tt.extern_elementwise` with __nv_logf."""
    symbol = str(operation.attributes.get("symbol", ""))
    if not symbol:
        return operation.name.partition(".")[2]
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    stem = name.removesuffix("f")
    return stem if stem in KNOWN else name


def is_of_its_lane_alone(operation: Operation, module: Module) -> bool:
    """Whether what an operation works on is computed, lane by lane, from what the same lane loaded."""
    return not any(each.name in ACROSS_LANES for each in flow_of(module).backward(*operation.operands))
