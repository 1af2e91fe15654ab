"""How a module is executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class ExecutionOptions:
    """How a module is executed; results do not depend on the chunk size.

    Args:
        memory_cap_bytes: what a chunk's values may take
        chunk_programs: programs that run together; None: chosen so that a chunk stays in the cache
        undefined: what masked-off lanes without `other` hold: "poison" (NaN, or a large odd
            integer) or a number
        output: where device prints go; None for standard output
        spin_limit: rounds after which a while loop with atomics in it is given up
    """

    memory_cap_bytes: int = 1 << 30
    chunk_programs: int | None = None
    undefined: str | float = "poison"
    output: TextIO | None = None
    spin_limit: int = 100_000
