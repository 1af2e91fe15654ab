"""The few operations of the `ttg`, `gpu` and `llvm` dialects that stand in TTIR.

`ttg.barrier` (Triton 3.7 on) and `gpu.barrier` come from `tl.debug_barrier`, with the memories they
order in the attribute `addrSpace` (`"all"`, `"local|global_read"`); `llvm.intr.assume` comes from
`tl.assume`.
"""

from __future__ import annotations

from tilesight.ir.assembly import OperationFormat
from tilesight.ir.assembly_elements import assembly

FORMATS: dict[str, OperationFormat] = {
    "ttg.barrier": assembly("bars:addrSpace {}"),
    "gpu.barrier": assembly("{}"),
    "llvm.intr.assume": assembly("%condition {} : type(condition)"),
}
