"""How an operation's assembly is written down once and used for reading and for printing.

A format is one line of elements with spaces between:

```
%ptr  %args*            an operand; zero or more with commas between
type(ptr) types(args)   its printed type(s); `type(result)` and `types(results)` for the results
twice(result)           one printed type for two results
pointer(x)              the type as `<f16>`, without its `!tt.ptr`; descriptor(x) without `!tt.tensordesc`
functional              `(operand types) -> result types`
word:sem                a bare word kept as the string attribute `sem`
text:prefix             a quoted string;  symbol:callee  a symbol
bars:addrSpace          words with bars between, `local|global_read`, as one string
flag:allow_reorder      an optional bare word that makes the attribute True
key:cache|evict         optional `cache = word evict = word`, in any order
flags:fastmath          an optional `fastmath<fast>`; `flags:overflow=overflowFlags` renames it
one:roundingmode=a|b    an optional bare word out of a few; `enum:axis=x|y|z` keeps its position
{}                      the dictionary of all other attributes
[? ... ]?               a group that stands there only if its first element does
anything else           itself
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilesight.ir.attribute_printer import show_types
from tilesight.ir.lexer import Token
from tilesight.ir.module import Attribute, Block, Location, Operation, Region, Value
from tilesight.ir.types import Type

if TYPE_CHECKING:
    from tilesight.ir.assembly_attributes import Element
    from tilesight.ir.parser import Parser
    from tilesight.ir.printer import Printer

Segments = Mapping[str, tuple[Value, ...]]
Infer = Callable[[Segments, Mapping[str, Attribute]], tuple[Type, ...]]


@dataclass
class Draft:
    """An operation while its text is being read."""

    name: str
    segments: dict[str, tuple[Value, ...]] = field(default_factory=dict[str, tuple[Value, ...]])
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])
    result_types: list[Type] = field(default_factory=list[Type])
    regions: list[Region] = field(default_factory=list[Region])
    successors: list[tuple[Block, tuple[Value, ...]]] = field(default_factory=list[tuple[Block, tuple[Value, ...]]])

    def operation(self, results: tuple[Value, ...], location: Location) -> Operation:
        """The finished operation; its operands are the segments in their order."""
        operands = tuple(value for segment in self.segments.values() for value in segment)
        return Operation(
            self.name,
            operands,
            results,
            self.attributes,
            tuple(self.regions),
            location,
            self.segments,
            tuple(self.successors),
        )


@dataclass(frozen=True)
class OperandSpec:
    """One operand group of an operation: exactly one, `?` at most one, `*` any number."""

    name: str
    multiplicity: str = ""

    @staticmethod
    def parse(text: str) -> OperandSpec:
        return OperandSpec(text.rstrip("?*"), text[-1] if text[-1] in "?*" else "")


@dataclass(frozen=True)
class OperationFormat:
    """The generic form: `"name"(%a, %b) <{...}> ({...}) : (A, B) -> C`; also the base of the others."""

    operands: str = ""

    @property
    def operand_specs(self) -> tuple[OperandSpec, ...]:
        return tuple(map(OperandSpec.parse, self.operands.split()))

    def parse(self, parser: Parser, draft: Draft) -> None:
        """Read what follows the operation's name."""
        parser.cursor.fail(f'the generic form `"{draft.name}"(...)`', parser.cursor.peek(-1))

    def show(self, printer: Printer, operation: Operation) -> str:
        """The operation's text from its name on, without results and location."""
        return printer.show_generic(operation)

    def split_generic_operands(self, parser: Parser, draft: Draft, operands: list[Value], token: Token) -> None:
        """Give the operands of a generic form their segment names."""
        specs = self.operand_specs or (OperandSpec("operands", "*"),)
        sizes = draft.attributes.pop("operandSegmentSizes", None) or _segment_sizes(specs, len(operands))
        if not isinstance(sizes, tuple) or len(sizes) != len(specs) or sum(_ints(sizes)) != len(operands):
            named = ", ".join(spec.name + spec.multiplicity for spec in specs)
            parser.cursor.fail(f"operands {named}", token, f"{len(operands)} operands of {draft.name}")
        start = 0
        for spec, size in zip(specs, _ints(sizes), strict=True):
            draft.segments[spec.name] = tuple(operands[start : start + size])
            start += size


def _ints(values: tuple[Attribute, ...]) -> list[int]:
    return [value for value in values if isinstance(value, int)]


def _segment_sizes(specs: tuple[OperandSpec, ...], count: int) -> tuple[int, ...]:
    """Sizes where the text gives none: the one open group takes what the others leave."""
    spare = count - sum(1 for spec in specs if not spec.multiplicity)
    sizes: list[int] = []
    for spec in specs:
        taken = 1 if not spec.multiplicity else max(0, min(spare, 1) if spec.multiplicity == "?" else spare)
        spare -= taken if spec.multiplicity else 0
        sizes.append(taken)
    return tuple(sizes)


@dataclass(frozen=True)
class CustomFormat(OperationFormat):
    """A format that needs functions of its own, such as that of `scf.for`."""

    read: Callable[[Parser, Draft], None] = lambda _parser, _draft: None
    write: Callable[[Printer, Operation], str] = lambda printer, operation: printer.show_generic(operation)

    def parse(self, parser: Parser, draft: Draft) -> None:
        self.read(parser, draft)

    def show(self, printer: Printer, operation: Operation) -> str:
        return self.write(printer, operation)


@dataclass(frozen=True)
class AssemblyFormat(OperationFormat):
    """A format in the notation of this module."""

    elements: tuple[Element, ...] = ()
    infer: Infer | None = None

    def parse(self, parser: Parser, draft: Draft) -> None:
        specs = self.operand_specs
        draft.segments = {spec.name: () for spec in specs}
        for element in self.elements:
            element.parse(parser, draft)
        if self.infer is not None:
            draft.result_types = list(self.infer(draft.segments, draft.attributes))

    def show(self, printer: Printer, operation: Operation) -> str:
        consumed = {name for element in self.elements for name in element.attribute_names()}
        parts = [element.show(printer, operation, consumed) for element in self.elements]
        return join_parts([operation.name, *parts])


def join_parts(parts: list[str]) -> str:
    """Parts with a space between, but as MLIR does none before a comma, inside brackets or in `%x[%i]` and `@f(%x)`."""
    text, previous = "", ""
    for part in filter(None, parts):
        opens = part in ("(", "[") and (text == previous or previous[0] in "%@")
        tight = not text or part[0] in ",])" or previous in ("(", "[") or opens
        text += part if tight else f" {part}"
        previous = part
    return text


def show_functional(operands: tuple[Value, ...], results: tuple[Value, ...]) -> str:
    """`(A, B) -> C`."""
    shown = show_types([value.type for value in results])
    return f"({show_types([value.type for value in operands])}) -> {shown if len(results) == 1 else f'({shown})'}"
