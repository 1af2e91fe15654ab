"""The assembly of every known operation, one file a dialect (`ttg` has the strays)."""

from __future__ import annotations

from tilesight.ir.assembly import OperationFormat
from tilesight.ir.ops import arith, cf, math, scf, tt, ttg, ub

FORMATS: dict[str, OperationFormat] = {
    **arith.FORMATS,
    **cf.FORMATS,
    **math.FORMATS,
    **scf.FORMATS,
    **tt.FORMATS,
    **ttg.FORMATS,
    **ub.FORMATS,
}
