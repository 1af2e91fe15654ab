"""The assembly of every known operation, one file a dialect."""

from __future__ import annotations

from tilesight.ir.assembly import OperationFormat
from tilesight.ir.ops import arith, cf, math, scf, tt, ub

FORMATS: dict[str, OperationFormat] = {
    **arith.FORMATS,
    **cf.FORMATS,
    **math.FORMATS,
    **scf.FORMATS,
    **tt.FORMATS,
    **ub.FORMATS,
}
