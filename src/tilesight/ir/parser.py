"""TTIR text → Module: functions, regions, blocks and the scopes that SSA names live in.

How each operation's own assembly is read lives in `ops/`, one file a dialect.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilesight.ir.assembly import Draft, OperationFormat
from tilesight.ir.attribute_parser import (
    parse_attribute,
    parse_attribute_dictionary,
    parse_function_type,
    parse_optional_attribute_dictionary,
    parse_result_types,
    parse_string,
    parse_symbol,
    parse_type,
)
from tilesight.ir.cursor import Cursor
from tilesight.ir.lexer import Source, Token, tokenize
from tilesight.ir.location_parser import LocationTable
from tilesight.ir.module import Attribute, Block, Function, Location, Module, Operation, Region, Value
from tilesight.ir.ops import FORMATS
from tilesight.ir.types import Type


def parse_module(text: str, file: str = "<ttir>") -> Module:
    """The module that a TTIR text spells, with names, locations and every attribute.

    Reads what Triton 3.6 to 3.9 print. It checks what the text itself says (a printed operand type
    against the operand's own, names against their scope); `verify` checks the rest.

    Args:    text: TTIR, with or without `loc(...)`
             file: the name to show in errors
    Raises:  TtirSyntaxError (a ParseError): file:line:column, the line with a caret, what was expected
    """
    return Parser(Source(text, file)).parse_module()


@dataclass
class Labels:
    """The blocks of one region by label; one that was only referred to waits in `undefined`."""

    blocks: dict[str, Block] = field(default_factory=dict[str, Block])
    undefined: dict[str, Token] = field(default_factory=dict[str, Token])


class Parser:
    """Recursive descent over the tokens of one module."""

    def __init__(self, source: Source) -> None:
        tokens = tokenize(source)
        self.locations = LocationTable(source, tokens)
        self.cursor = Cursor(source, tokens)
        self._scopes: list[dict[str, Value]] = []
        self._labels: list[Labels] = []

    def parse_module(self) -> Module:
        cursor = self.cursor
        self._skip_aliases()
        wrapped = cursor.accept("module")
        if wrapped:
            if cursor.token.kind == "symbol":
                cursor.advance()
            if cursor.accept("attributes"):
                parse_attribute_dictionary(cursor)
            cursor.expect("{")
        functions: list[Function] = []
        while cursor.token.text == "tt.func":
            functions.append(self._parse_function())
        location = Location()
        if wrapped:
            cursor.expect("}")
            location = self.locations.parse_optional(cursor)
        self._skip_aliases()
        if cursor.token.kind != "end":
            cursor.fail("`tt.func` or the end of the module")
        return Module(tuple(functions), location, cursor.source.text)

    def _skip_aliases(self) -> None:
        """Pass over `#name = value` lines; the location table has read those of locations."""
        cursor = self.cursor
        while cursor.token.kind == "attribute":
            cursor.advance()
            cursor.expect("=")
            if cursor.token.text == "loc":
                cursor.skip_brackets()
            else:
                parse_attribute(cursor)

    def _parse_function(self) -> Function:
        cursor = self.cursor
        cursor.expect("tt.func")
        visibility = cursor.advance().text if cursor.token.text in ("public", "private", "nested") else "public"
        name = parse_symbol(cursor).name
        self._scopes.append({})
        argument_attributes: list[Attribute] = []
        arguments = cursor.enclosed_list("(", ")", lambda: self._parse_function_argument(argument_attributes))
        results = self._parse_function_results()
        attributes = parse_attribute_dictionary(cursor) if cursor.accept("attributes") else {}
        if any(argument_attributes):
            attributes["arg_attrs"] = tuple(argument_attributes)
        body = self.parse_region(arguments, new_scope=False) if cursor.token.text == "{" else Region()
        self._scopes.pop()
        location = self.locations.parse_optional(cursor)
        return Function(name, tuple(arguments), results, body, attributes, location, visibility == "public")

    def _parse_function_argument(self, attributes: list[Attribute]) -> Value:
        argument = self.parse_block_argument(located=False)
        attributes.append(parse_optional_attribute_dictionary(self.cursor))
        argument.location = self.locations.parse_optional(self.cursor)
        return argument

    def _parse_function_results(self) -> tuple[Type, ...]:
        return parse_result_types(self.cursor) if self.cursor.accept("->") else ()

    def parse_block_argument(self, located: bool = True) -> Value:
        """`%name: type loc(...)`, defined in the innermost scope."""
        token = self.cursor.expect_kind("value", "an argument such as `%name: type`")
        self.cursor.expect(":")
        argument = Value(token.text[1:], parse_type(self.cursor))
        if located:
            argument.location = self.locations.parse_optional(self.cursor)
        self.define(token, argument)
        return argument

    def parse_region(self, arguments: list[Value] | None = None, new_scope: bool = True) -> Region:
        """`{ ... }`; `arguments` are the entry block's where the text does not list them."""
        if new_scope:
            self._scopes.append({})
        self._labels.append(Labels())
        self.cursor.expect("{")
        region = Region()
        if self.cursor.token.kind != "block":
            region.blocks.append(Block(tuple(arguments or ())))
            self._parse_operations(region.blocks[0])
        while self.cursor.token.kind == "block":
            region.blocks.append(self._parse_labelled_block(arguments if not region.blocks else None))
        self.cursor.expect("}")
        for label, token in self._labels.pop().undefined.items():
            self.cursor.fail(f"a block `{label}` in this region", token, f"block `{label}` is not defined")
        if new_scope:
            self._scopes.pop()
        return region

    def _parse_labelled_block(self, arguments: list[Value] | None) -> Block:
        token = self.cursor.expect_kind("block", "a block label such as `^bb0`")
        labels = self._labels[-1]
        if token.text in labels.blocks and token.text not in labels.undefined:
            self.cursor.fail("a label of its own", token, f"block `{token.text}` is defined twice")
        labels.undefined.pop(token.text, None)
        block = labels.blocks.setdefault(token.text, Block((), label=token.text[1:]))
        listed: list[Value] = []
        if self.cursor.token.text == "(":
            listed = self.cursor.enclosed_list("(", ")", self.parse_block_argument)
        block.arguments = tuple(arguments or listed)
        self.cursor.expect(":")
        self._parse_operations(block)
        return block

    def _parse_operations(self, block: Block) -> None:
        while self.cursor.token.kind not in ("block", "end") and self.cursor.token.text != "}":
            block.operations.append(self.parse_operation())

    def parse_successor(self) -> Block:
        """`^label`, which may be defined further down."""
        token = self.cursor.expect_kind("block", "a block label such as `^bb0`")
        labels = self._labels[-1]
        if token.text not in labels.blocks:
            labels.blocks[token.text] = Block((), label=token.text[1:])
            labels.undefined[token.text] = token
        return labels.blocks[token.text]

    def parse_operation(self) -> Operation:
        """`%results = name ...` in the operation's own or in the generic form."""
        cursor = self.cursor
        names = self._parse_result_names()
        token = cursor.token
        if token.kind == "string":
            draft = self._parse_generic()
        else:
            draft = self._parse_custom(cursor.expect_kind("word", "an operation"))
        return self._finish(draft, names, token)

    def _parse_result_names(self) -> list[tuple[Token, str]]:
        """The names on the left of `=`: `%x:2` gives `x#0` and `x#1`."""
        if self.cursor.token.kind != "value":
            return []
        groups = self.cursor.comma_list(self._parse_result_group)
        self.cursor.expect("=")
        return [name for group in groups for name in group]

    def _parse_result_group(self) -> list[tuple[Token, str]]:
        token = self.cursor.expect_kind("value", "a result such as `%name`")
        name = token.text[1:]
        if not self.cursor.accept(":"):
            return [(token, name)]
        count = self.cursor.expect_integer("the number of results")
        return [(token, f"{name}#{index}") for index in range(count)]

    def _parse_custom(self, token: Token) -> Draft:
        form = FORMATS.get(token.text)
        if form is None:
            self.cursor.fail(
                "an operation whose custom form is known",
                token,
                f"operation `{token.text}` has no format",
                "formats live in tilesight/ir/ops; the generic form is always read",
            )
        draft = Draft(token.text)
        form.parse(self, draft)
        return draft

    def _parse_generic(self) -> Draft:
        r"""`"name"(%a, %b)[^bb1] <{properties}> ({region}) {attributes} : (A, B) -> C`."""
        cursor = self.cursor
        draft = Draft(parse_string(cursor))
        operands = cursor.enclosed_list("(", ")", self.parse_value)
        if cursor.token.text == "[":
            draft.successors = [(block, ()) for block in cursor.enclosed_list("[", "]", self.parse_successor)]
        if cursor.accept("<"):
            draft.attributes.update(parse_attribute_dictionary(cursor))
            cursor.expect(">")
        if cursor.token.text == "(":
            draft.regions = cursor.enclosed_list("(", ")", self.parse_region)
        draft.attributes.update(parse_optional_attribute_dictionary(cursor))
        cursor.expect(":")
        token = cursor.token
        type_ = parse_function_type(cursor)
        self.check_types(operands, type_.inputs, token)
        draft.result_types = list(type_.results)
        form = FORMATS.get(draft.name, OperationFormat(""))
        form.split_generic_operands(self, draft, operands, token)
        return draft

    def _finish(self, draft: Draft, names: list[tuple[Token, str]], token: Token) -> Operation:
        types = draft.result_types
        if len(names) != len(types) and names:
            self.cursor.fail(f"{len(types)} names", names[0][0], f"{len(names)} names for {len(types)} results")
        if not names:
            names = [(token, "")] * len(types)
        results = tuple(Value(name, type_) for (_, name), type_ in zip(names, types, strict=True))
        location = self.locations.parse_optional(self.cursor)
        for (name_token, name), result in zip(names, results, strict=True):
            result.location = location
            if name:
                self.define(name_token, result)
        return draft.operation(results, location)

    def define(self, token: Token, value: Value) -> None:
        """Enter a value into the innermost scope."""
        if any(value.name in scope for scope in self._scopes):
            self.cursor.fail("a name of its own", token, f"`%{value.name}` is defined twice")
        self._scopes[-1][value.name] = value

    def push_scope(self) -> None:
        """Open a scope for names that only the regions of one operation see."""
        self._scopes.append({})

    def pop_scope(self) -> None:
        self._scopes.pop()

    def parse_value(self) -> Value:
        """`%name` or `%name#1`, a value that is in scope."""
        token = self.cursor.expect_kind("value", "an operand such as `%name`")
        name = token.text[1:]
        value = next((scope[name] for scope in reversed(self._scopes) if name in scope), None)
        if value is None:
            self.cursor.fail("a value defined above and in scope", token, f"`{token.text}` is not defined here")
        return value

    def check_types(self, values: list[Value], types: tuple[Type, ...], token: Token) -> None:
        """Compare the printed types with the operands' own."""
        if len(values) != len(types):
            self.cursor.fail(f"{len(values)} operand types", token, f"{len(types)} operand types")
        for value, type_ in zip(values, types, strict=True):
            if value.type != type_:
                self.cursor.fail(str(value.type), token, f"`%{value.name}` is printed with type {type_}")
