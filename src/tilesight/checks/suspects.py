"""Which programs are worth tracing: heard in one cheap pass while the launch runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.slices import Flow, flow_of
from tilesight.engine.communication import LOADS
from tilesight.engine.listener import Access, Executed, Listener
from tilesight.engine.values import spread
from tilesight.ir.module import Module, Operation, Value
from tilesight.ir.types import element_type

MOST_PROGRAMS = 16
KEPT_COUNTS = 32
EXPONENT_BITS = {"float16": 0x7C00, "bfloat16": 0x7F80}
COMBINING = frozenset({"tt.dot", "tt.histogram", "tt.reduce", "tt.scan"})
TO_INTEGERS = frozenset({"arith.fptosi", "arith.fptoui"})
WIDENING = frozenset({"arith.extf", "tt.fp_to_fp"})
BRANCHES = frozenset({"scf.if", "scf.condition", "cf.cond_br"})


@dataclass
class _Masked:
    """Programs of one load by how many of their lanes are masked off: the first and the last of each count."""

    lanes: int = 1
    by_count: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def chosen(self) -> list[int]:
        """Programs with some lanes masked off before those with all."""
        counts = sorted(self.by_count, key=lambda count: (count == self.lanes, count))
        ends = [self.by_count[count] for count in counts]
        return [program for pair in zip_longest(*ends) for program in pair if program is not None]


class Suspects(Listener):
    """Programs with masked-off lanes, and programs that stored, made an integer of or branched on a NaN or an infinity.

    Loads with `other` count only where their value can reach a reduction, a scan, a product or a histogram.
    """

    hears_in_any_order = True

    def __init__(self, module: Module) -> None:
        self._combined = loads_that_are_combined(module)
        self._without_other: dict[Operation, _Masked] = {}
        self._with_other: dict[Operation, _Masked] = {}
        self._non_finite: dict[Operation, set[int]] = {}

    @property
    def undefined(self) -> tuple[int, ...]:
        """Programs with masked-off lanes in a load without `other`."""
        return _take_turns(masked.chosen() for masked in self._without_other.values())

    @property
    def padded(self) -> tuple[int, ...]:
        """Programs with lanes that a load padded, and that may enter a reduction."""
        return _take_turns(masked.chosen() for masked in self._with_other.values())

    @property
    def non_finite(self) -> tuple[int, ...]:
        """Programs that stored a NaN or an infinity, or hid it in an integer or a branch."""
        return _take_turns(sorted(programs)[:MOST_PROGRAMS] for programs in self._non_finite.values())

    @property
    def non_finite_count(self) -> int:
        """How many programs those are."""
        return len(set[int]().union(*self._non_finite.values()))

    def watched(self, module: Module) -> Collection[Operation]:
        """Where a float that is not finite may leave no trace in what is stored: casts, branches."""
        flow = flow_of(module)
        decided = [operation.operands[0] for operation in module.walk() if operation.name in BRANCHES]
        comparisons = [each for each in flow.backward(*decided) if each.name == "arith.cmpf"] if decided else []
        casts = [each for each in module.walk() if each.name in TO_INTEGERS or _widens_computed_half(each, flow)]
        return [*casts, *comparisons]

    def after_step(self, executed: Executed) -> None:
        """Note the programs whose operand is not finite."""
        for operand in executed.operands:
            values = spread(operand)
            if not _is_finite(values):
                shape = (len(executed.programs), *values.shape[1:])
                bad = np.broadcast_to(~np.isfinite(values), shape).reshape(len(executed.programs), -1).any(axis=1)
                if executed.active is not None:
                    bad = bad & executed.active
                self._non_finite.setdefault(executed.operation, set()).update(executed.programs[bad].tolist())

    def after_access(self, access: Access) -> None:
        """Note the programs of a load with masked-off lanes, or of a store of something not finite."""
        if access.kind == "load":
            if access.mask is not None:
                self._hear_mask(access, access.mask)
        elif access.values is not None and access.values.dtype.kind in "fV":
            self._hear_values(access, access.values)

    def _hear_mask(self, access: Access, mask: NDArray[np.bool_]) -> None:
        operation = access.operation
        has_other = operation.name != "tt.load" or bool(operation.operand_segments.get("other"))
        if has_other and operation not in self._combined:
            return
        known = (self._with_other if has_other else self._without_other).setdefault(operation, _Masked())
        if len(known.by_count) > KEPT_COUNTS:
            return
        inner = tuple(range(1, mask.ndim))
        repeats = int(np.prod(access.shape[1:])) // max(1, int(np.prod(mask.shape[1:])))
        known.lanes = max(1, int(np.prod(access.shape[1:])))
        if mask.shape[0] == 1:
            off = int(mask.size - np.count_nonzero(mask)) * repeats
            _note(known, off, int(access.programs[0]), int(access.programs[-1]))
            return
        open_rows = mask.all(axis=inner)
        rows = np.flatnonzero(~open_rows)
        counts = (~mask[rows]).sum(axis=inner) * repeats
        for count in np.unique(counts).tolist():
            same = access.programs[rows[counts == count]]
            _note(known, count, int(same.min()), int(same.max()))

    def _hear_values(self, access: Access, values: NDArray[Any]) -> None:
        if _is_finite(values):
            return
        bad = np.broadcast_to(~np.isfinite(values), access.shape)
        if access.mask is not None:
            bad = bad & access.mask
        rows = np.flatnonzero(bad.reshape(access.shape[0], -1).any(axis=1))
        if len(rows):
            self._non_finite.setdefault(access.operation, set()).update(access.programs[rows].tolist())


def _widens_computed_half(operation: Operation, flow: Flow) -> bool:
    """Whether a float16 that the kernel has computed is made wider, an overflow with it."""
    if operation.name not in WIDENING or str(element_type(operation.operands[0].type)) != "f16":
        return False
    source = flow.definitions.get(operation.operands[0])
    return source is None or source.name not in LOADS


def _note(masked: _Masked, count: int, first: int, last: int) -> None:
    if count:
        known = masked.by_count.setdefault(count, [first, last])
        known[:] = [min(known[0], first), max(known[1], last)]


def _is_finite(values: NDArray[Any]) -> bool:
    """Whether all are finite, told by a sum where that is cheapest; a sum that overflows says no, to be looked at."""
    if values.size == 0:
        return True
    bits = EXPONENT_BITS.get(values.dtype.name)
    if bits is not None:
        pattern = np.uint16(bits)
        return not ((values.view(np.uint16) & pattern) == pattern).any()
    if values.dtype.itemsize == 1:
        return bool(np.isfinite(values).all())
    return bool(np.isfinite(values.sum()))


def _take_turns(groups: Iterable[list[int]]) -> tuple[int, ...]:
    """At most `MOST_PROGRAMS` of all, the first of each group first."""
    mixed = (program for turn in zip_longest(*groups) for program in turn if program is not None)
    return tuple(sorted(list(dict.fromkeys(mixed))[:MOST_PROGRAMS]))


@lru_cache(maxsize=64)
def loads_that_are_combined(module: Module) -> frozenset[Operation]:
    """Loads in a function whose lanes are combined anywhere, so that a padded lane can reach others."""
    operations = list(module.walk())
    if not any(operation.name in COMBINING for operation in operations):
        return frozenset()
    return frozenset(each for each in operations if each.name in ("tt.load", "tt.descriptor_load"))


def reads_of(value: Value, definitions: dict[Value, Operation], most: int = 200) -> list[Operation]:
    """The operations that a value is computed by, back to loads and block arguments, nearest first."""
    found: dict[Operation, None] = {}
    waiting = [value]
    while waiting and len(found) < most:
        read = waiting.pop(0)
        operation = definitions.get(read)
        if operation is None or operation in found:
            continue
        found[operation] = None
        if operation.name == "scf.for":
            position = operation.results.index(read)
            waiting.append(operation.regions[0].entry.operations[-1].operands[position])
        elif operation.name != "tt.load":
            waiting.extend(operation.operands)
    return list(found)
