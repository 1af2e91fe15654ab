"""Whether two modules are equivalent: the same but for the names of their values and blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from tilesight.ir.attribute_printer import show_dictionary
from tilesight.ir.module import Block, Function, Location, Module, Operation, Region, Value


def first_difference(left: Module, right: Module, with_locations: bool = True) -> str:
    """The first line in which two modules differ, or an empty string where they are equivalent.

    Compares functions, operations, operands, types, attributes (a NaN equals a NaN, −0.0 is not
    0.0), regions, successors and, unless told not to, locations.
    """
    for one, other in zip_longest(
        _describe(left, with_locations), _describe(right, with_locations), fillvalue="nothing"
    ):
        if one != other:
            return f"{one} ≠ {other}"
    return ""


def _describe(module: Module, with_locations: bool) -> Iterator[str]:
    for function in module.functions:
        yield from _Description(with_locations).function(function)
    yield f"module {module.location!r}" if with_locations else "module"


class _Description:
    """Numbers values and blocks in the order in which they are met."""

    def __init__(self, with_locations: bool) -> None:
        self._with_locations = with_locations
        self._numbers: dict[Value | Block, int] = {}

    def _place(self, location: Location) -> str:
        return repr(location) if self._with_locations else ""

    def _number(self, item: Value | Block) -> int:
        return self._numbers.setdefault(item, len(self._numbers))

    def _values(self, values: tuple[Value, ...]) -> str:
        return ", ".join(f"{self._number(value)}: {value.type} {self._place(value.location)}" for value in values)

    def function(self, function: Function) -> Iterator[str]:
        results = ", ".join(map(str, function.result_types))
        head = f"{function.name}({self._values(function.arguments)}) -> ({results}) public={function.is_public}"
        yield f"{head} {show_dictionary(function.attributes)} {self._place(function.location)}"
        yield from self._region(function.body)

    def _region(self, region: Region) -> Iterator[str]:
        for block in region.blocks:
            yield f"block {self._number(block)} ({self._values(block.arguments)})"
            for operation in block.operations:
                yield self._operation(operation)
                for inner in operation.regions:
                    yield "region"
                    yield from self._region(inner)

    def _operation(self, operation: Operation) -> str:
        segments = {name: list(map(self._number, values)) for name, values in operation.operand_segments.items()}
        successors = [(self._number(block), list(map(self._number, values))) for block, values in operation.successors]
        return (
            f"({self._values(operation.results)}) = {operation.name}({list(map(self._number, operation.operands))}) "
            f"{segments} {successors} {show_dictionary(operation.attributes)} {self._place(operation.location)}"
        )
