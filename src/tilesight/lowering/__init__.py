"""What a kernel becomes for a GPU that need not be here: TTIR, TTGIR, LLVM IR, PTX, cubin."""

from __future__ import annotations

from tilesight.lowering.compile import compile_for
from tilesight.lowering.model import STAGES, Allocation, Assembly, Compiled, Failure
from tilesight.lowering.options import chosen_options

__all__ = ["STAGES", "Allocation", "Assembly", "Compiled", "Failure", "chosen_options", "compile_for"]
