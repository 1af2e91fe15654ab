"""A generated kernel as a person would keep it: plain @triton.jit, names that can be read, its launch in words.

Names change and what the body does not use goes; every operation stays, so that the kernel computes what the generated
one does, bit for bit. Seen on torch 2.13.0.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module

from tilesight.capture.inductor.kernels import LoadedKernel
from tilesight.capture.inductor.standalone import Operand, StandaloneLaunch

_PREFIX = re.compile(r"^triton_(?:\w{2,3}_)?(?:fused_)?_*|_\d+$")
_AXIS = re.compile(r"^(?P<axis>[xyz]|r(?P<number>\d)_)(?P<what>numel|offset|index|mask|base)$")
_BLOCK = re.compile(r"^(?:([XYZ])|R(\d)_)BLOCK$")
_WORDS = {"numel": "size", "offset": "offset", "index": "index", "mask": "mask", "base": "base"}
_UNUSED = ("rnumel", "RBLOCK", "roffset", "rindex", "rbase", "r_base", "r_offset")
_UNUSED_LINE = {name: re.compile(rf"\s*{name}(?:: tl\.constexpr)? = ") for name in _UNUSED}
_CEIL_DIVISION = re.compile(r"-\(\((\w+)\) // -\((\w+)\)\)")
_HELPERS = {
    "triton_helpers": "from torch._inductor.runtime import triton_helpers",
    "libdevice": "from torch._inductor.runtime.triton_helpers import libdevice",
    "tl_math": "from torch._inductor.runtime.triton_helpers import math as tl_math",
}
_REPLACED = ("torch._inductor.runtime", "triton")
_FILES_OWN = ("launch", "reference", "check", "main", "aten", "prims", "math", "sys", "torch", "triton", "tl")
_LONGEST_NAME = 40
_LONGEST_LINE = 104


@dataclass(frozen=True)
class PlainKernel:
    """The kernel's text and how it is launched.

    Args:
        name: the function's name
        imports: the import lines it needs beside `triton` and `triton.language as tl`
        source: the functions, the kernel last
        as_generated: the kernel once more with its own names, called `<name>_as_generated`
        arguments: (parameter as generated, what is passed: an operand's name, a number or a block's name)
        operands: the parameters among them that are tensors
        parameters: the readable name of each parameter
        blocks: constexprs that the launch chooses, by readable name
        options: num_warps, num_stages and their like
        grid: a Python expression over the blocks
        grid_numbers: the same as numbers
    """

    name: str
    imports: tuple[str, ...]
    source: str
    as_generated: str
    arguments: tuple[tuple[str, str], ...]
    operands: frozenset[str]
    parameters: dict[str, str]
    blocks: dict[str, object]
    options: dict[str, object]
    grid: str
    grid_numbers: str

    def launch(self, *, is_as_generated: bool = False) -> str:
        """The statement that launches the kernel, or its copy with the generated names, blocks and options."""
        passed: list[str] = []
        for parameter, text in self.arguments:
            keyword = parameter if is_as_generated else self.parameters[parameter]
            text = repr(self.blocks[text]) if is_as_generated and text in self.blocks else text
            is_first = parameter in self.operands and all("=" not in each for each in passed)
            passed.append(text if is_first else f"{keyword}={text}")
        passed += [
            f"{key}={value!r}" if is_as_generated else f"{key}={key.upper()}" for key, value in self.options.items()
        ]
        name, grid = (f"{self.name}_as_generated", self.grid_numbers) if is_as_generated else (self.name, self.grid)
        line = f"{name}[{grid}]({', '.join(passed)})\n"
        if len(line) <= _LONGEST_LINE:
            return line
        return f"{name}[{grid}](\n" + "".join(f"    {each},\n" for each in passed) + ")\n"


def plain_kernel(launch: StandaloneLaunch, operand_names: Mapping[str, str]) -> PlainKernel:
    """The launch's kernel under @triton.jit with readable names.

    Args:
        operand_names: the name that the reader shall see for each tensor parameter
    """
    source = launch.kernel.source
    tree = ast.parse(source)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    function = next(node for node in functions if node.name == str(launch.loaded.function.__name__))
    name = short_name(launch.kernel.name)
    names = _renamings(source, operand_names) | {function.name: name}
    fixed = _fixed_in_body(function)
    helpers = [_text_of(source, node) for node in functions if node is not function]
    constants = [_text_of(source, node) for node in tree.body if isinstance(node, ast.Assign)]
    kernel = _without_unused(renamed(_plain(source, function, fixed), names))
    parameters = [parameter for parameter in launch.loaded.parameters if parameter not in fixed]
    arguments = _arguments(launch, parameters, operand_names, names)
    config = {**launch.loaded.constants, **launch.loaded.configs[0]}
    blocks = {names.get(key, key): value for key, value in config.items() if (key, names.get(key, key)) in arguments}
    return PlainKernel(
        name=name,
        imports=_imports(source, tree, kernel),
        source="\n\n\n".join([*constants, *helpers, kernel]),
        as_generated=renamed(_plain(source, function, fixed), {function.name: f"{name}_as_generated"}),
        arguments=arguments,
        operands=frozenset(operand_names),
        parameters={parameter: names.get(parameter, parameter) for parameter in parameters},
        blocks=blocks,
        options={key: value for key, value in config.items() if key not in launch.loaded.parameters},
        grid=_grid(launch, names),
        grid_numbers=_tuple_of(map(str, launch.loaded.grid(launch.arguments))),
    )


def short_name(kernel: str) -> str:
    """`add_mul_relu` for `triton_poi_fused_add_mul_relu_0`; a valid name in any case."""
    short = kernel
    for _ in range(2):  # the number at the end, then the prefix
        short = _PREFIX.sub("", short) if short.startswith("triton_") else short
    if len(short) > _LONGEST_NAME:
        short = short[:_LONGEST_NAME].rpartition("_")[0]
    short = short.strip("_")
    if not short.isidentifier() or keyword.iskeyword(short):
        return f"kernel_{short}".strip("_")
    return f"{short}_kernel" if hasattr(builtins, short) or short in _FILES_OWN else short


def renamed(source: str, names: Mapping[str, str]) -> str:
    """The source with names replaced; attributes, keywords of calls, strings and comments stay."""
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    depth = [0]
    for token in tokens:
        opened = token.type == tokenize.OP and token.string in "([{"
        closed = token.type == tokenize.OP and token.string in ")]}"
        depth.append(depth[-1] + opened - closed)
    for number in reversed(range(len(tokens))):
        token = tokens[number]
        if token.type == tokenize.NAME and token.string in names and not _is_fixed(tokens, number, depth[number]):
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + names[token.string] + line[column + len(token.string) :]
    return "".join(lines)


def _is_fixed(tokens: list[tokenize.TokenInfo], number: int, depth: int) -> bool:
    """Whether a name is an attribute, or a keyword in a call."""
    if number and tokens[number - 1].string == ".":
        return True
    return depth > 0 and number + 1 < len(tokens) and tokens[number + 1].string == "="


def _text_of(source: str, node: ast.stmt) -> str:
    """The statement with its decorators."""
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _plain(source: str, function: ast.FunctionDef, fixed: Mapping[str, ast.stmt]) -> str:
    """The function under @triton.jit alone, without parameters that its body sets itself."""
    first = function.body[0].lineno
    parameters = [each for each in function.args.args if each.arg not in fixed]
    listed = ", ".join(ast.unparse(each) for each in parameters)
    body = source.splitlines()[first - 1 : function.end_lineno]
    return f"@triton.jit\ndef {function.name}({listed}):\n" + "\n".join(line.rstrip() for line in body) + "\n"


def _fixed_in_body(function: ast.FunctionDef) -> dict[str, ast.stmt]:
    """The parameters that the body sets to a constant at once: sizes that are known, such as `xnumel = 1000`."""
    parameters = {each.arg for each in function.args.args}
    found: dict[str, ast.stmt] = {}
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()) if name in parameters:
                found[name] = statement
            case _:
                continue
    return found


def _renamings(source: str, operand_names: Mapping[str, str]) -> dict[str, str]:
    """Readable names for pointers, axes, blocks and what is loaded; none of them is taken in the source."""
    taken = {token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)}
    found: dict[str, str] = {}
    for wanted, readable in _wanted(source, taken, operand_names):
        name, number = readable, 1
        while name in taken or name in found.values():
            number += 1
            name = f"{readable}_{number}"
        found[wanted] = name
    return found


def _wanted(source: str, taken: set[str], operand_names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for parameter, name in operand_names.items():
        yield parameter, f"{name}_ptr"
    for name in sorted(taken):
        axis, block = _AXIS.match(name), _BLOCK.match(name)
        if axis:
            letter = axis["axis"] if axis["number"] is None else _reduced(axis["number"])
            yield name, f"{letter}_{_WORDS[axis['what']]}"
        elif block:
            yield name, f"BLOCK_{block[1] or _reduced(block[2]).upper()}"
    for value, pointer in re.findall(r"^\s*(tmp\d+) = tl\.load\((\w+) ", source, re.MULTILINE):
        if pointer in operand_names:
            yield value, f"{operand_names[pointer]}_tile"


def _reduced(number: str) -> str:
    return "r" if number == "0" else f"r{number}"


def _without_unused(source: str) -> str:
    """The source without the assignments that Inductor writes for every kernel and this one does not use."""
    while True:
        lines = source.splitlines(keepends=True)
        words = re.findall(r"\w+", source)
        set_by = {name: [line for line in lines if _UNUSED_LINE[name].match(line)] for name in _UNUSED}
        unused = [line for name, found in set_by.items() if len(found) == words.count(name) for line in found]
        if not unused:
            return source
        source = "".join(line for line in lines if line not in unused)


def _imports(source: str, tree: ast.Module, kernel: str) -> tuple[str, ...]:
    """Inductor's helpers where the kernel uses them, and whatever else its file imports."""
    words = set(re.findall(r"\w+", source.split("@triton.jit", 1)[-1] + kernel))
    found = [line for name, line in _HELPERS.items() if name in words]
    return (*found, *(_text_of(source, node) for node in tree.body if _is_needed_import(node)))


def _is_needed_import(node: ast.stmt) -> bool:
    """An import that the exported file does not have in any case."""
    if isinstance(node, ast.ImportFrom):
        return not (node.module or "").startswith(_REPLACED[0])
    return isinstance(node, ast.Import) and not any(alias.name.startswith(_REPLACED) for alias in node.names)


def _arguments(
    launch: StandaloneLaunch, parameters: list[str], operand_names: Mapping[str, str], names: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    passed = launch.loaded.passed(launch.arguments)
    chosen = {**launch.loaded.constants, **launch.loaded.configs[0]}
    found: list[tuple[str, str]] = []
    for parameter in parameters:
        if parameter in passed:
            value = passed[parameter]
            found.append((parameter, operand_names[parameter] if isinstance(value, Operand) else str(value)))
        elif parameter in chosen:
            found.append((parameter, names.get(parameter, parameter)))
    return tuple(found)


def _grid(launch: StandaloneLaunch, names: Mapping[str, str]) -> str:
    """The grid over the block sizes, where it follows from them; else its numbers."""
    grid = launch.loaded.grid(launch.arguments)
    while len(grid) > 1 and grid[-1] == 1:
        grid = grid[:-1]
    numbers = _tuple_of(map(str, grid))
    passed = {key: value for key, value in launch.loaded.passed(launch.arguments).items() if isinstance(value, int)}
    config = {key: value for key, value in launch.loaded.configs[0].items() if isinstance(value, int)}
    texts = _symbolic_grid(launch.loaded, [key for key in config if key in launch.loaded.parameters])
    if texts is None:
        return numbers
    filled = [_filled(text, passed) for text in texts]
    known = {names.get(key, key): value for key, value in config.items()}
    try:
        renamed_texts = [renamed(text, names) for text in filled]
        values = tuple(_evaluated(text, known) for text in renamed_texts)
    except (SyntaxError, KeyError, ValueError):
        return numbers
    fits = values[: len(grid)] == tuple(grid) and all(extent == 1 for extent in values[len(grid) :])
    return _tuple_of(renamed_texts[: len(grid)]) if fits else numbers


def _tuple_of(texts: Iterable[str]) -> str:
    listed = list(texts)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


def _symbolic_grid(loaded: LoadedKernel, blocks: list[str]) -> list[str] | None:
    """Inductor's own grid expressions with the blocks as names; None for grids of another kind."""
    heuristics = import_module("torch._inductor.runtime.triton_heuristics")
    if loaded.metadata.get("grid_type") not in ("Grid1D", "Grid2D", "Grid3D"):
        return None
    made = heuristics.GridExpr.from_meta(loaded.metadata, {name: name for name in blocks}, mode="python")
    return [_CEIL_DIVISION.sub(r"triton.cdiv(\1, \2)", str(each)) for each in (made.x_grid, made.y_grid, made.z_grid)]


def _filled(text: str, sizes: Mapping[str, int]) -> str:
    return re.sub(r"\b\w+numel\b", lambda match: str(sizes[match.group()]), text)


def _evaluated(text: str, values: Mapping[str, int]) -> int:
    """The number that a grid's text stands for: a number, or `triton.cdiv(size, BLOCK)`."""
    match ast.parse(text, mode="eval").body:
        case ast.Constant(value=int() as value):
            return value
        case ast.Call(args=[ast.Constant(value=int() as size), ast.Name(id=block)]):
            return -(-size // values[block])
        case _:
            raise ValueError(text)
