"""The `ub` dialect: values that no correct program reads."""

from __future__ import annotations

from tilesight.ir.assembly import OperationFormat
from tilesight.ir.assembly_elements import assembly

FORMATS: dict[str, OperationFormat] = {
    "ub.poison": assembly("{} : type(result)"),
    "ub.unreachable": assembly("{}"),
}
