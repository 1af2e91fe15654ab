"""A TTIR module as typed Python objects: module, function, region, block, operation, value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilesight.ir.types import Type


@dataclass(frozen=True)
class Location:
    """Where an operation comes from in the user's source.

    `callers` is the inlining chain, innermost caller first: for `tl.sum` in a kernel the location
    itself lies in Triton's standard library and the last caller is the kernel's own line.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    name: str = ""
    callers: tuple[Location, ...] = ()

    @property
    def kernel_frame(self) -> Location:
        """The outermost frame: the line of the kernel itself."""
        known = [frame for frame in (self, *self.callers) if frame.file]
        return known[-1] if known else self

    @property
    def user_frame(self) -> Location:
        """The innermost frame of the author's own code: a helper's line rather than its call, Triton's skipped."""
        known = [frame for frame in (self, *self.callers) if frame.file and not _is_triton(frame.file)]
        return known[0] if known else self.kernel_frame

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "unknown location"


def _is_triton(file: str) -> bool:
    """Whether a file is part of Triton's package."""
    return "/triton/language/" in file or "/triton/runtime/" in file or "/triton/tools/" in file


UNKNOWN = Location()


@dataclass(frozen=True)
class SymbolRef:
    """`@name`: a reference to a function."""

    name: str


@dataclass(frozen=True)
class DenseElements:
    """`dense<...>`: one value for a splat, or one for each element in row-major order."""

    type: Type
    values: tuple[int | float, ...]

    @property
    def is_splat(self) -> bool:
        return len(self.values) == 1


Attribute = (
    int
    | float
    | bool
    | str
    | SymbolRef
    | DenseElements
    | Type
    | tuple["Attribute", ...]
    | dict[str, "Attribute"]
    | None
)


@dataclass(eq=False)
class Value:
    """An SSA value; two values are the same only if they are the same object."""

    name: str
    type: Type
    location: Location = UNKNOWN


@dataclass(eq=False)
class Block:
    arguments: tuple[Value, ...]
    operations: list[Operation] = field(default_factory=list["Operation"])
    label: str = ""


@dataclass(eq=False)
class Region:
    blocks: list[Block] = field(default_factory=list[Block])

    @property
    def entry(self) -> Block:
        return self.blocks[0]


@dataclass(eq=False)
class Operation:
    """One operation: `name` has its dialect (`tt.load`); enum words and dense data are attributes.

    Optional operands are told apart by `operand_segments` (name → operands), which the parser
    fills for every operation that has optional or variadic groups: `tt.load` has `ptr`, `mask`,
    `other`; `tt.store` `ptr`, `value`, `mask`; `scf.for` `lower`, `upper`, `step`, `init`.
    `successors` holds the target blocks of cf operations with the operands passed to each.
    """

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    regions: tuple[Region, ...] = ()
    location: Location = UNKNOWN
    operand_segments: dict[str, tuple[Value, ...]] = field(default_factory=dict[str, tuple[Value, ...]])
    successors: tuple[tuple[Block, tuple[Value, ...]], ...] = ()

    @property
    def dialect(self) -> str:
        return self.name.split(".", 1)[0]

    def walk(self) -> Iterator[Operation]:
        """This operation and every operation inside it, in textual order."""
        yield self
        for region in self.regions:
            for block in region.blocks:
                for operation in block.operations:
                    yield from operation.walk()


@dataclass(eq=False)
class Function:
    name: str
    arguments: tuple[Value, ...]
    result_types: tuple[Type, ...]
    body: Region
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    location: Location = UNKNOWN
    is_public: bool = True

    def walk(self) -> Iterator[Operation]:
        for block in self.body.blocks:
            for operation in block.operations:
                yield from operation.walk()


@dataclass(eq=False)
class Module:
    functions: tuple[Function, ...]
    location: Location = UNKNOWN
    text: str = ""

    def walk(self) -> Iterator[Operation]:
        """Every operation of every function, in textual order."""
        for function in self.functions:
            yield from function.walk()

    def function(self, name: str) -> Function:
        """The function called `name`; raises KeyError when there is none."""
        return {function.name: function for function in self.functions}[name]

    @property
    def kernel(self) -> Function:
        """The public function, the one a launch enters."""
        return next(function for function in self.functions if function.is_public)
