"""What a listener hears: one record before and after each load, store and atomic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.launch import Launch, Memory
from tilesight.engine.memory import Lattice
from tilesight.engine.values import LaneSum, spread_integers
from tilesight.ir.module import Location, Module, Operation

AccessKind = Literal["load", "store", "atomic"]
ACCESS_KINDS: frozenset[AccessKind] = frozenset(("load", "store", "atomic"))


@dataclass(frozen=True, eq=False)
class Access:
    """One execution of a memory operation by a chunk of programs.

    P programs run at once; the block has shape B. Arrays may have extent 1 on an axis along which
    they do not vary (NumPy broadcasting gives the full [P, *B]).

    Args:
        kind: load, store or atomic
        operation: the TTIR operation
        location: the kernel's own line (outermost inlining frame)
        memory: the tensor that the pointers derive from; None where it is not one tensor
        programs: [P] int64, linear program ids (x fastest, then y, then z)
        shape: (P, *B), the full shape
        lanes: their byte addresses, spread out as `address` when somebody asks
        mask: [P, *B] bool of lanes that access, or None when all do
        out_of_bounds: [P, *B] bool of active lanes outside `memory`, or None when there are none
        item_bytes: bytes of one lane
        values: [P, *B] what was loaded or is stored; None before a load
        lattice: the addresses as a start and a stride an axis; None when they are not that
    """

    kind: AccessKind
    operation: Operation
    location: Location
    memory: Memory | None
    programs: NDArray[np.int64]
    shape: tuple[int, ...]
    lanes: NDArray[np.int64] | LaneSum
    mask: NDArray[np.bool_] | None
    out_of_bounds: NDArray[np.bool_] | None
    item_bytes: int
    values: NDArray[np.generic] | None
    lattice: Lattice | None = None

    @property
    def address(self) -> NDArray[np.int64]:
        """[P, *B] int64, byte address of each lane; extent 1 where it does not vary."""
        return spread_integers(self.lanes)


@dataclass(frozen=True, eq=False)
class Executed:
    """One execution of an operation by a chunk of programs.

    Args:
        operation: the TTIR operation
        operands, results: the engine's values (`engine.values`): an array [P, *B] with extents 1 where it
            does not vary, a LaneSum, a Pointer or a Descriptor; an array that is passed on is the same object
        programs: [P] int64, linear program ids
        active: [P] bool of the programs that execute it, or None when all do
    """

    operation: Operation
    operands: tuple[Any, ...]
    results: tuple[Any, ...]
    programs: NDArray[np.int64]
    active: NDArray[np.bool_] | None


class Listener:
    """Base class: override what you want to hear; what is not overridden costs nothing.

    `hears_in_any_order` says that the listener's result does not depend on the order in which
    accesses of different programs are heard; only then do chunks run at the same time. One method
    is called at a time, whatever the number of threads. `hears_kinds` are the kinds of access that
    `before_access` and `after_access` are called for; others cost nothing.
    """

    hears_in_any_order = False
    hears_kinds: frozenset[AccessKind] = ACCESS_KINDS

    def launch_begins(self, launch: Launch) -> None:
        """Before the first program runs."""

    def before_access(self, access: Access) -> None:
        """Before memory is read or written."""

    def after_access(self, access: Access) -> None:
        """After memory was read or written; `values` is filled."""

    def watched(self, module: Module) -> Collection[Operation]:
        """The operations that `after_step` is to be called for; those inside combining regions are not heard."""
        return ()

    def after_step(self, executed: Executed) -> None:
        """After a watched operation was executed."""

    def launch_ends(self, launch: Launch) -> None:
        """After the last program ran."""
