"""Module → TTIR text that `parse_module` reads back to an equivalent module."""

from __future__ import annotations

from collections.abc import Iterable

from tilesight.ir.assembly import OperationFormat, show_functional
from tilesight.ir.attribute_printer import show_dictionary, show_string, show_symbol, show_types
from tilesight.ir.module import UNKNOWN, Block, Function, Location, Module, Operation, Region, SymbolRef, Value
from tilesight.ir.ops import FORMATS

INDENT = "  "
_GENERIC = OperationFormat()


def print_module(module: Module) -> str:
    """The module as TTIR: each operation in its custom form, locations as aliases at the end.

    `parse_module(print_module(m))` is equivalent to `m` (see `tilesight.ir.compare`).
    """
    return Printer().show_module(module)


class Printer:
    """Collects the location aliases while the text is built."""

    def __init__(self) -> None:
        self._aliases: dict[Location, str] = {}

    def show_module(self, module: Module) -> str:
        lines = ["module {"]
        for function in module.functions:
            lines.extend(self._indent(self._show_function(function)))
        lines.append("}" + self.show_location(module.location))
        lines.extend(self._alias_lines())
        return "\n".join(lines) + "\n"

    def _alias_lines(self) -> list[str]:
        return [f"{alias} = loc({_show_location_body(location)})" for location, alias in self._aliases.items()]

    def _indent(self, text: str) -> list[str]:
        return [INDENT + line for line in text.split("\n")]

    def show_location(self, location: Location) -> str:
        """` loc(#alias)`, or nothing where the place is unknown."""
        if location == UNKNOWN:
            return ""
        return f" loc({self._aliases.setdefault(location, f'#loc{len(self._aliases)}')})"

    def _show_function(self, function: Function) -> str:
        attributes = dict(function.attributes)
        argument_attributes = attributes.pop("arg_attrs", ())
        assert isinstance(argument_attributes, tuple)
        shown = [self.show_argument(value) for value in function.arguments]
        for index, entry in enumerate(argument_attributes):
            if isinstance(entry, dict) and entry:
                name_and_type = f"%{function.arguments[index].name}: {function.arguments[index].type}"
                location = self.show_location(function.arguments[index].location)
                shown[index] = f"{name_and_type} {show_dictionary(entry)}{location}"
        visibility = "public" if function.is_public else "private"
        head = f"tt.func {visibility} {show_symbol(SymbolRef(function.name))}({', '.join(shown)})"
        if function.result_types:
            types = show_types(function.result_types)
            head += f" -> {types}" if len(function.result_types) == 1 else f" -> ({types})"
        if attributes:
            head += f" attributes {show_dictionary(attributes)}"
        body = f" {self.show_region(function.body, entry_arguments=False)}" if function.body.blocks else ""
        return head + body + self.show_location(function.location)

    def show_argument(self, value: Value) -> str:
        """`%name: type loc(...)`."""
        return f"%{value.name}: {value.type}{self.show_location(value.location)}"

    def show_region(self, region: Region, entry_arguments: bool = True, terminator: bool = True) -> str:
        """`{ ... }`; with `terminator` False an empty one at the end is left out."""
        lines = ["{"]
        for index, block in enumerate(region.blocks):
            if index or (block.arguments and entry_arguments):
                lines.append(self._show_label(block, index))
            operations = block.operations
            if not terminator and operations and not operations[-1].operands:
                operations = operations[:-1]
            for operation in operations:
                lines.extend(self._indent(self.show_operation(operation)))
        return "\n".join([*lines, "}"])

    def _show_label(self, block: Block, index: int) -> str:
        arguments = ", ".join(map(self.show_argument, block.arguments))
        return f"^{block.label or f'bb{index}'}{f'({arguments})' if arguments else ''}:"

    def show_operation(self, operation: Operation) -> str:
        """Results, the operation in its own form, and its location."""
        form = FORMATS.get(operation.name, _GENERIC)
        results = self._show_result_names(operation.results)
        return f"{results}{form.show(self, operation)}{self.show_location(operation.location)}"

    def _show_result_names(self, results: tuple[Value, ...]) -> str:
        groups: dict[str, int] = {}
        for value in results:
            if value.name:
                name = value.name.split("#")[0] if "#" in value.name else value.name
                groups[name] = groups.get(name, 0) + 1
        shown = [f"%{name}:{count}" if count > 1 else f"%{name}" for name, count in groups.items()]
        return f"{', '.join(shown)} = " if shown else ""

    def show_values(self, values: Iterable[Value]) -> str:
        """`%a, %b#1`."""
        return ", ".join(f"%{value.name}" for value in values)

    def show_generic(self, operation: Operation) -> str:
        """`"name"(%a) <{...}> ({...}) : (A) -> B`."""
        text = f"{show_string(operation.name)}({self.show_values(operation.operands)})"
        if operation.successors:
            text += f"[{', '.join('^' + block.label for block, _ in operation.successors)}]"
        if operation.attributes:
            text += f" <{show_dictionary(operation.attributes)}>"
        if operation.regions:
            text += f" ({', '.join(self.show_region(region) for region in operation.regions)})"
        return f"{text} : {show_functional(operation.operands, operation.results)}"


def _show_location_body(location: Location) -> str:
    """A location without aliases; callers become nested call sites."""
    base = f"{show_string(location.file)}:{location.line}:{location.column}" if location.file else "unknown"
    if location.name:
        base = f"{show_string(location.name)}({base})"
    if not location.callers:
        return base
    outer = _show_location_body(location.callers[-1])
    for caller in reversed(location.callers[:-1]):
        outer = f"callsite({_show_location_body(caller)} at {outer})"
    return f"callsite({base} at {outer})"
