"""How a module is executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class ExecutionOptions:
    """How a module is executed.

    Results depend on none of the sizes: of programs that do not race with each other they are the
    same bit for bit at any chunk size and number of threads.

    Args:
        memory_cap_bytes: what the values of all programs that run at once may take
        chunk_programs: the most programs that run together; None: what stays in the cache
        threads: chunks that run at the same time where a kernel allows it; None: one a core, at most 8
        undefined: what masked-off lanes without `other` hold: "poison" (NaN, or a large odd
            integer) or a number
        output: where device prints go; None for standard output
        loop_limit: rounds after which a loop is given up as one that does not end
        programs: linear ids of the only programs to run, in this order; None for all
        backwards: run programs from the last to the first
        spin_limit: rounds after which a loop that waits for other programs, and counts as it does, is given up
    """

    memory_cap_bytes: int = 1 << 30
    chunk_programs: int | None = None
    threads: int | None = None
    undefined: str | float = "poison"
    output: TextIO | None = None
    spin_limit: int = 100_000
    loop_limit: int = 1_000_000
    programs: tuple[int, ...] | None = None
    backwards: bool = False
