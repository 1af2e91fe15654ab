"""Checks a module against the IR's own rules: structure here, types of each operation in `type_rules`."""

from __future__ import annotations

from tilesight.errors import VerifyError
from tilesight.ir.dominance import dominators
from tilesight.ir.module import Block, Function, Location, Module, Operation, Region, SymbolRef, Value
from tilesight.ir.ops import FORMATS
from tilesight.ir.type_rules import RULES
from tilesight.ir.types import Type

TERMINATORS = {
    "tt.func": {"tt.return", "cf.br", "cf.cond_br", "ub.unreachable"},
    "scf.for": {"scf.yield"},
    "scf.if": {"scf.yield"},
    "scf.while": {"scf.condition", "scf.yield"},
    "tt.reduce": {"tt.reduce.return"},
    "tt.scan": {"tt.scan.return"},
    "tt.map_elementwise": {"tt.map_elementwise.return", "cf.br", "cf.cond_br"},
}
ALL_TERMINATORS = frozenset(name for names in TERMINATORS.values() for name in names)


def verify(module: Module) -> None:
    """Check a module; return if it keeps the rules that an engine may rely on.

    Checked: operands are defined before and dominate their use; blocks end in the terminator that
    belongs there and have none before; branches, yields, returns and calls agree with what they
    reach in number and types; operand and result types agree for each known operation. Operations
    without a rule, and properties of values (such as bounds), are not checked.

    Raises:  VerifyError: at the user's line of the first operation that breaks a rule
    """
    functions = {function.name: function for function in module.functions}
    for function in module.functions:
        _FunctionVerifier(function, functions).verify()


def _types(values: tuple[Value, ...]) -> tuple[Type, ...]:
    return tuple(value.type for value in values)


def _show(types: tuple[Type, ...]) -> str:
    return f"({', '.join(map(str, types))})"


class _FunctionVerifier:
    """Walks one function; `_visible` holds the values that may be used at this point."""

    def __init__(self, function: Function, functions: dict[str, Function]) -> None:
        self.function = function
        self.functions = functions
        self._visible: set[Value] = set()

    def fail(self, location: Location, got: str, expected: str) -> None:
        place = f"{location.kernel_frame} (@{self.function.name})" if location.file else f"@{self.function.name}"
        raise VerifyError(got, where=place, expected=expected)

    def verify(self) -> None:
        function = self.function
        if not function.body.blocks:
            return
        if _types(function.body.entry.arguments) != _types(function.arguments):
            self.fail(function.location, "an entry block with other arguments", _show(_types(function.arguments)))
        self._verify_region(function.body, "tt.func")

    def _verify_region(self, region: Region, parent: str) -> None:
        """Each block sees the values of its dominators and what was visible around the region."""
        outside = set(self._visible)
        defined: dict[Block, set[Value]] = {}
        for block in region.blocks:
            defined[block] = {*block.arguments, *(value for item in block.operations for value in item.results)}
        for block, above in dominators(region).items():
            self._visible = outside.union(*(defined[other] for other in above if other is not block))
            self._visible.update(block.arguments)
            self._verify_block(block, parent, region)
        self._visible = outside

    def _verify_block(self, block: Block, parent: str, region: Region) -> None:
        last = block.operations[-1] if block.operations else None
        allowed = TERMINATORS.get(parent)
        if allowed is not None and (last is None or last.name not in allowed):
            where = last.location if last else self.function.location
            got = f"a block of {parent} that ends in {last.name if last else 'nothing'}"
            self.fail(where, got, " or ".join(sorted(allowed)))
        for operation in block.operations:
            if operation is not last and operation.name in ALL_TERMINATORS:
                self.fail(operation.location, f"{operation.name} in the middle of a block", "nothing behind it")
            self._verify_operation(operation, region)
            self._visible.update(operation.results)

    def _verify_operation(self, operation: Operation, region: Region) -> None:
        for value in operation.operands + tuple(value for _, values in operation.successors for value in values):
            if value not in self._visible:
                got = f"{operation.name} uses %{value.name}, which does not dominate it"
                self.fail(operation.location, got, "a value defined before, on every path to here")
        self._verify_segments(operation)
        self._verify_successors(operation, region)
        self._verify_calls(operation)
        problem = RULES[operation.name](operation) if operation.name in RULES else None
        if problem is not None:
            self.fail(operation.location, f"{operation.name}: {problem.got}", problem.expected)
        for inner in operation.regions:
            self._verify_region(inner, operation.name)
        self._verify_yields(operation)

    def _verify_segments(self, operation: Operation) -> None:
        """The operand groups of a known operation hold as many values as its format says."""
        form = FORMATS.get(operation.name)
        for spec in form.operand_specs if form else ():
            count = len(operation.operand_segments.get(spec.name, ()))
            allowed = {"": count == 1, "?": count <= 1, "*": True}[spec.multiplicity]
            if not allowed:
                expected = "one" if not spec.multiplicity else "at most one"
                self.fail(operation.location, f"{operation.name} with {count} operands `{spec.name}`", expected)

    def _verify_successors(self, operation: Operation, region: Region) -> None:
        for block, values in operation.successors:
            if block not in region.blocks:
                self.fail(operation.location, f"{operation.name} to a block of another region", "a block of its own")
            if block is region.entry:
                self.fail(operation.location, f"{operation.name} to the entry block", "another block")
            self._match(operation, f"passes to ^{block.label}", _types(values), _types(block.arguments))

    def _verify_calls(self, operation: Operation) -> None:
        if operation.name == "tt.return":
            self._match(operation, "returns", _types(operation.operands), self.function.result_types)
        if operation.name != "tt.call":
            return
        symbol = operation.attributes.get("callee")
        callee = self.functions.get(symbol.name) if isinstance(symbol, SymbolRef) else None
        if callee is None:
            self.fail(operation.location, f"tt.call of {symbol}", f"one of {', '.join(sorted(self.functions))}")
            return
        self._match(operation, f"passes to @{callee.name}", _types(operation.operands), _types(callee.arguments))
        self._match(operation, f"takes from @{callee.name}", _types(operation.results), callee.result_types)

    def _verify_yields(self, operation: Operation) -> None:
        """What the terminators of an operation's regions hand on, and what its entry blocks take."""
        results = _types(operation.results)
        init = _types(operation.operand_segments.get("init", ()))
        if operation.name == "scf.for":
            induction = operation.operands[0].type
            self._match_region(operation, operation.regions[0], (induction, *init), results)
            self._match(operation, "starts from", init, results)
        elif operation.name == "scf.if":
            for region in operation.regions:
                if region.blocks:
                    self._match_region(operation, region, (), results)
            if results and not operation.regions[-1].blocks:
                self.fail(operation.location, "scf.if with results and no else", "an else region")
        elif operation.name == "scf.while":
            before, after = operation.regions
            self._match_region(operation, before, init, results)
            self._match_region(operation, after, results, init)
        elif operation.name in ("tt.reduce", "tt.scan"):
            elements = tuple(getattr(type_, "element", type_) for type_ in _types(operation.operands))
            self._match_region(operation, operation.regions[0], elements * 2, elements)

    def _match_region(
        self, operation: Operation, region: Region, taken: tuple[Type, ...], handed: tuple[Type, ...]
    ) -> None:
        self._match(operation, "has a region that takes", _types(region.entry.arguments), taken)
        last = region.blocks[-1].operations[-1]
        values = last.operand_segments.get("args", last.operands)
        self._match(last, f"of {operation.name} hands on", _types(values), handed)

    def _match(self, operation: Operation, verb: str, got: tuple[Type, ...], expected: tuple[Type, ...]) -> None:
        if got != expected:
            self.fail(operation.location, f"{operation.name} {verb} {_show(got)}", _show(expected))
