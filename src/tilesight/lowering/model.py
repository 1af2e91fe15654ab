"""What came out of compiling a kernel for a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilesight.targets import Target

Stage = Literal["options", "ttir", "ttgir", "llir", "ptx", "cubin"]
STAGES: tuple[Stage, ...] = ("options", "ttir", "ttgir", "llir", "ptx", "cubin")
"""In the order in which a kernel goes through them."""


@dataclass(frozen=True)
class Allocation:
    """What one block of the kernel takes, known once there is TTGIR.

    Args:
        shared_bytes: shared memory
        num_warps: warps, those that warp specialisation adds included
        tensor_columns: columns of tensor memory (Blackwell), 0 elsewhere
    """

    shared_bytes: int
    num_warps: int
    tensor_columns: int


@dataclass(frozen=True)
class Assembly:
    """What ptxas tells of the machine code.

    Args:
        registers: 32-bit registers of a thread
        stack_bytes: local memory of a thread
        spill_store_bytes, spill_load_bytes: moved to and from it because registers ran out
    """

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True)
class Failure:
    """Why a kernel did not compile.

    Args:
        stage: the one that failed
        error: class of Triton's exception; `timeout` or `stopped` where there was none
        message: Triton's, the assembler's or the compiler's reason, in one line
        file, line: the author's own, where Triton names them; else empty and 0
    """

    stage: Stage
    error: str
    message: str
    file: str = ""
    line: int = 0

    @property
    def is_timeout(self) -> bool:
        return self.error == "timeout"


@dataclass(frozen=True)
class Compiled:
    """A kernel compiled for a target, as far as it was asked for or came.

    Args:
        kernel: its name
        stages: texts by stage: ttir, ttgir, llir, ptx
        allocation: None before TTGIR
        cubin: the machine code; empty before it
        assembly: None before the machine code
        failure: None where all stages that were asked for succeeded
    """

    kernel: str
    target: Target
    stages: Mapping[str, str]
    allocation: Allocation | None = None
    cubin: bytes = b""
    assembly: Assembly | None = None
    failure: Failure | None = None

    @property
    def threads(self) -> int:
        """Threads of a block; 0 before TTGIR."""
        return 0 if self.allocation is None else self.allocation.num_warps * self.target.warp_size
