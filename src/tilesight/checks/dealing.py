"""How a kernel hands out its work: blocks of one program, loops over tiles, branches that turn programs away."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from tilesight.checks.reach import Reach
from tilesight.checks.slices import flow_of
from tilesight.checks.wording import counted
from tilesight.engine import Launch
from tilesight.engine.communication import STORES, UPDATES, pointer_sources
from tilesight.ir.module import Module, Operation

LOOPS = ("scf.for", "scf.while")
ONE_BLOCK = "launch triton.cdiv(n, BLOCK) programs along each axis, with the BLOCK of this launch"
A_SHARE = "triton.cdiv(n, share), where a share is all that one program takes, of several blocks here"


@dataclass(frozen=True)
class Dealing:
    """What of a kernel says how much a program takes.

    Args:
        loop: over tiles, from one that follows from the program's id; None where a program has its own without one
        counts_programs: the loop asks for the number of programs
        has_several_blocks: a program takes block after block, unrolled or in another loop
    """

    loop: Operation | None
    counts_programs: bool
    has_several_blocks: bool

    def reaches_all(self, launch: Launch) -> bool:
        """Whether the loop counts with as many programs as there are: what it leaves out is not the grid's fault."""
        given = (*launch.constexprs.values(), *(argument.value for argument in launch.arguments))
        counts = {value for value in given if type(value) is int}
        return self.loop is not None and (self.counts_programs or launch.programs in counts)

    def more_programs(self, line: int) -> str:
        """What to do where programs are too few.

        Args: line: of the loop
        """
        if self.loop is None:
            return f"launch {A_SHARE}" if self.has_several_blocks else ONE_BLOCK
        return f"{self.all_tiles(line)}, or launch as many programs as the kernel counts with"

    def all_tiles(self, line: int) -> str:
        return (
            f"the programs deal out tiles in the loop of line {line}: let it reach all of them, as "
            "range(tl.program_id(0), tiles, tl.num_programs(0)) does"
        )


ONE_BLOCK_EACH = Dealing(None, False, False)


@lru_cache(maxsize=64)
def dealing_of(module: Module, names: frozenset[str] = STORES | UPDATES) -> Dealing:
    """How a module's programs share the work.

    Args: names: of the accesses that are the work: what is stored, or what is read
    """
    flow = flow_of(module)
    loops = [operation for operation in module.walk() if operation.name in LOOPS and _has(operation, names)]
    for loop in loops:
        bounds = loop.operands[:3] if loop.name == "scf.for" else loop.operands
        made_of = {operation.name for operation in flow.backward(*bounds)}
        first = {operation.name for operation in flow.backward(*bounds[: 1 if loop.name == "scf.for" else None])}
        counts = "tt.get_num_programs" in made_of or (loop.name == "scf.while" and _counts_inside(loop))
        if "tt.get_program_id" in first or counts:
            return Dealing(loop, counts, True)
    return Dealing(None, False, bool(loops) or _is_unrolled(module, names))


def _has(operation: Operation, names: frozenset[str]) -> bool:
    return any(inner.name in names for inner in operation.walk())


def _counts_inside(loop: Operation) -> bool:
    return any(inner.name == "tt.get_num_programs" for inner in loop.walk())


def _is_unrolled(module: Module, names: frozenset[str]) -> bool:
    """Whether one line of the author's has several such accesses of a tensor."""
    sources = pointer_sources(module.kernel)
    places = [
        (operation.location.user_frame, sources.get(operation.operands[0]))
        for operation in module.walk()
        if operation.name in names
    ]
    return len(set(places)) < len(places)


def programs_for(reach: Reach, dealing: Dealing, line: int) -> str:
    """What to do where offsets end before their bound: the number of programs, where their distance tells it."""
    step = reach.starts[0] - reach.starts[1] if len(reach.starts) > 1 else 0
    if dealing.loop is None and step > reach.lanes * reach.lane_step:
        needed = -(-reach.bound // step)
        return f"launch triton.cdiv({reach.bound}, {step}) = {needed} programs: each begins {step} after the one before"
    return dealing.more_programs(line)


def fewer_programs(needed: int, axis: str, dealing: Dealing) -> str:
    """What to do where the last programs along an axis store nothing."""
    if not dealing.has_several_blocks:
        return "launch triton.cdiv(n, BLOCK) programs, with the BLOCK that this launch uses"
    return f"launch {counted(needed, 'program')} along {axis} for these sizes: {A_SHARE}"


def turning_branch(module: Module, stores: Collection[Operation]) -> Operation | None:
    """The branch that lets only some programs reach any of these stores; None where there is none."""
    flow = flow_of(module)
    around = [[each for each in flow.enclosing(store) if each.name == "scf.if"] for store in stores]
    if around and all(around):
        return around[0][-1]
    return next((operation for operation in module.walk() if operation.name == "cf.cond_br"), None)
