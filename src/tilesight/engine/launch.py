"""What is executed: a kernel's module with its arguments, grid and options."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Undefined:
    """Which elements of a storage have been written; the flags are shared, and set by whoever writes.

    Args:
        written: [elements of the storage], True where something was written
        item_bytes: bytes that one flag stands for
        address: byte address of the first flag's element
    """

    written: NDArray[np.bool_]
    item_bytes: int
    address: int

    def written_units(self, address: int, size_bytes: int, unit_bytes: int = 1) -> NDArray[np.bool_]:
        """[size_bytes / unit_bytes] which units of a part of the storage were written; an element has whole units."""
        units_an_item = self.item_bytes // unit_bytes
        first, skipped = divmod((address - self.address) // unit_bytes, units_an_item)
        count = size_bytes // unit_bytes
        last = first - (-(skipped + count) // units_an_item)
        return np.repeat(self.written[first:last], units_an_item)[skipped : skipped + count]


@dataclass(frozen=True)
class Autotuning:
    """How @triton.autotune would run a kernel before its launch.

    Args:
        configs: how many configurations it would time
        restored: parameters that it resets or restores between runs
        has_hook: a hook of the author's own prepares each run
        declared_at: `file:line` of the decorated kernel
    """

    configs: int
    restored: tuple[str, ...] = ()
    has_hook: bool = False
    declared_at: str = ""


@dataclass(frozen=True, eq=False)
class Memory:
    """A tensor argument: the bytes that its elements span, at an address of their own.

    Args:
        name: the kernel's parameter name
        address: byte address of `data[0]`; the engine's pointers are these addresses
        data: uint8 [bytes], writable view of the tensor's storage from its lowest to its highest element
        dtype: element type in PyTorch's short form, such as `float32` or `bfloat16`
        shape, strides: the tensor's, in elements
        pointer: byte address the kernel is handed (that of element 0)
        tensor_name: the caller's name for the tensor, where known
        padding: what lanes outside hold when a descriptor made on the host loads them, 0 or NaN
        undefined: which elements of the storage were written; None when all were, or it is not known
    """

    name: str
    address: int
    data: NDArray[np.uint8]
    dtype: str
    item_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: int
    tensor_name: str = ""
    padding: float = 0.0
    undefined: Undefined | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def overlaps(self, other: Memory) -> bool:
        """Whether the two share bytes."""
        return self.address < other.address + len(other.data) and other.address < self.address + len(self.data)


ArgumentValue = Memory | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Argument:
    """One parameter of the kernel's TTIR function, in order, with the value it is given."""

    name: str
    value: ArgumentValue


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel, its arguments, constexprs, grid and options.

    `arguments` line up with the TTIR function's parameters (constexprs and arguments specialised
    away are in `constexprs` instead). `ttir` is the module's text. `file`, `first_line` and
    `source` show the kernel as its author wrote it. `reachable` are tensors that are no arguments
    but whose addresses the arguments hold. `launched_at` is the caller's `file:line`.
    """

    kernel: str
    ttir: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, int, int]
    constexprs: dict[str, object] = field(default_factory=dict[str, object])
    options: dict[str, object] = field(default_factory=dict[str, object])
    file: str = ""
    first_line: int = 0
    source: str = ""
    reachable: tuple[Memory, ...] = ()
    launched_at: str = ""
    autotuning: Autotuning | None = None

    @property
    def programs(self) -> int:
        return prod(self.grid)

    @property
    def memories(self) -> tuple[Memory, ...]:
        return (*(a.value for a in self.arguments if isinstance(a.value, Memory)), *self.reachable)
