"""A kernel's module once more, with other compile-time integers: what it would be for other shapes and blocks.

Built from what Triton keeps of a launch, its `ASTSource` and options. Seen on Triton 3.6, 3.7.1 and 3.8.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
from __future__ import annotations

import ast
import contextlib
import copy
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import triton.language as tl
from triton._C.libtriton import ir as triton_ir
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource, make_backend
from triton.compiler.errors import TritonError

from tilesight.errors import TilesightError
from tilesight.ir import Module, parse_module

LARGEST_CONSTANT = 1 << 20
MOST_GROWTH = 4
"""Of the operations of a number's first variant; what is longer is an unrolled loop, and the next is longer still."""

SURE_ROUNDS = 3
"""One larger, half and double: tried of every number."""

MOST_OPERATIONS = 20_000
"""Operations of all variants together after which no further values are tried: a second or two of compilation."""

_END = object()

Path = tuple[int, ...]


def vary_constants(source: Any, metadata: Any) -> Iterator[Module]:
    """The module with each compile-time integer changed, one at a time; what does not compile is left out.

    Compile-time integers are the kernel's constexpr parameters, numbers that it assigns to its variables and
    the module's constexprs that it reads. A number is made one larger, halved, doubled and multiplied by powers
    of four, until a loop that is unrolled makes the module `MOST_GROWTH` times as long. Numbers take turns, so
    that who needs one counterexample has it early. Arguments that Triton took for constants because they are 1
    are arguments again in all of them.

    Args:
        source: Triton's ASTSource of the kernel
        metadata: the compiled kernel's, with its options and target
    """
    options = metadata if isinstance(metadata, dict) else metadata._asdict()
    constants, signature = generalise(source)
    if signature != source.signature:
        module = compile_ttir(source.fn, source, constants, signature, options)
        if module is None:
            constants, signature = dict(source.constants), dict(source.signature)
        else:
            yield module
    numbers = (
        *(((source.fn, changed) for changed in series) for series in _changed_constants(constants)),
        *(((function, constants) for function in series) for series in changed_functions(source.fn)),
    )

    def compiled(changes: Iterator[tuple[Any, Mapping[Path, Any]]]) -> Iterator[Module | None]:
        return (compile_ttir(function, source, changed, signature, options) for function, changed in changes)

    yield from take_turns([until_unrolled(compiled(changes)) for changes in numbers])


def until_unrolled(variants: Iterable[Module | None]) -> Iterator[Module | None]:
    """The variants of one number up to the first that is `MOST_GROWTH` times as long as the first; None stays None."""
    size = 0
    for module in variants:
        yield module
        operations = 0 if module is None else sum(1 for _ in module.walk())
        size = size or operations
        if operations > MOST_GROWTH * size:
            return


def take_turns(series: Sequence[Iterator[Module | None]]) -> Iterator[Module]:
    """The likeliest variant of each number, then the next of each, and so on; None is passed over.

    After `SURE_ROUNDS` rounds it ends where all that was yielded has `MOST_OPERATIONS` operations.
    """
    operations, left = 0, list(series)
    for rounds in itertools.count(1):
        for each in tuple(left):
            module = next(each, _END)
            if module is _END:
                left.remove(each)
            elif isinstance(module, Module):
                operations += sum(1 for _ in module.walk())
                yield module
        if not left or (rounds >= SURE_ROUNDS and operations > MOST_OPERATIONS):
            return


def _changed_constants(constants: Mapping[Path, Any]) -> Iterator[Iterator[Mapping[Path, Any]]]:
    """For each compile-time integer the constants with it changed."""

    def changed(path: Path, value: int) -> Iterator[Mapping[Path, Any]]:
        return ({**constants, path: other} for other in other_values(value))

    for path, value in constants.items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield changed(path, value)


def changed_functions(function: Any) -> Iterator[Iterator[Any]]:
    """For each number in a JITFunction's body and each constexpr of its module, the function with it changed."""
    tree = ast.parse(function.src)

    def with_number(number: ast.Constant, value: int) -> Iterator[Any]:
        return (_again(function, source=_with_number(function.src, number, other)) for other in other_values(value))

    def with_constexpr(name: str, value: int) -> Iterator[Any]:
        scopes = ({**function.__globals__, name: tl.constexpr(other)} for other in other_values(value))
        return (_again(function, scope=scope) for scope in scopes)

    for number in _assigned_numbers(tree):
        yield with_number(number, int(number.value))  # pyright: ignore[reportArgumentType]
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name in sorted(read & function.__globals__.keys()):
        value = getattr(function.__globals__[name], "value", None)
        if isinstance(function.__globals__[name], tl.constexpr) and isinstance(value, int):
            yield with_constexpr(name, value)


def _assigned_numbers(tree: ast.AST) -> list[ast.Constant]:
    """The integers that are assigned to a variable as they stand."""
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign)]
    values = [node.value for node in assignments if isinstance(node.value, ast.Constant)]
    return [value for value in values if type(value.value) is int]


def _with_number(source: str, number: ast.Constant, other: int) -> str:
    """The source with one number in it replaced; columns of the syntax tree count bytes."""
    lines = source.splitlines(keepends=True)
    line = lines[number.lineno - 1].encode()
    lines[number.lineno - 1] = (
        line[: number.col_offset] + str(other).encode() + line[number.end_col_offset :]
    ).decode()
    return "".join(lines)


def _again(function: Any, source: str | None = None, scope: dict[str, Any] | None = None) -> Any:
    """A JITFunction with another text (`_src`) or other globals, at the same place in the same file."""
    other = copy.copy(function)
    other._src = function.src if source is None else source
    other.__globals__ = function.__globals__ if scope is None else scope
    other.hash, other.used_global_vals = None, {}
    return other


def other_values(value: int) -> Iterator[int]:
    """What a compile-time integer could be instead, the likeliest to need a mask first."""
    yield value + 1
    if value > 1:
        yield value // 2
    larger = 2 * value
    while 0 < larger <= LARGEST_CONSTANT:
        yield larger
        larger *= 4


def generalise(source: Any) -> tuple[dict[Path, Any], dict[str, Any]]:
    """Constants and signature of a source in which arguments that are 1 are arguments again."""
    constants, signature = dict(source.constants), dict(source.signature)
    for index, parameter in enumerate(source.fn.params):
        if not parameter.is_constexpr and constants.get((index,)) == 1 and signature[parameter.name] == "constexpr":
            del constants[(index,)]
            signature[parameter.name] = "i32"
    return constants, signature


def compile_ttir(
    function: Any, source: Any, constants: Mapping[Path, Any], signature: Mapping[str, Any], options: Mapping[str, Any]
) -> Module | None:
    """The TTIR of a JITFunction with these constants, or None where it does not compile."""
    target: Any = options["target"]
    backend: Any = make_backend(target)
    parsed: Any = backend.parse_options({name: value for name, value in options.items() if value is not None})
    changed: Any = ASTSource(function, dict(signature), dict(constants), source.attrs)
    context: Any = triton_ir.context()
    triton_ir.load_dialects(context)
    backend.load_dialects(context)
    codegen = backend.get_codegen_implementation(parsed)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            module = changed.make_ir(target, parsed, codegen, backend.get_module_map(), context)
            capability = int(backend._parse_arch(parsed.arch))
            return parse_module(str(CUDABackend.make_ttir(module, {}, parsed, capability)))
    except (TritonError, TilesightError, RuntimeError, ValueError, TypeError):
        return None
