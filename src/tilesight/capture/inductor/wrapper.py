"""Read Inductor's generated wrapper: its kernels, its steps in order, its buffers.

The wrapper is Python, so it is read as Python (`ast`), never executed here. Seen on torch 2.11.0 to
2.14.1: kernels are `name = async_compile.triton('name', '''source''', ...)`, the steps stand in
`call(args)` of class Runner (or of the module), each after a comment that names its ATen operators; for CUDA graphs
they stand in functions `partition_0(args)`, …, that `call` calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod

from tilesight.capture.inductor.comments import comments_by_line
from tilesight.capture.inductor.cpp_kernels import CATEGORY as CPP
from tilesight.capture.inductor.generated_kernels import is_loaded, kernels_in
from tilesight.capture.inductor.graph import Buffer, Call, GeneratedKernel
from tilesight.capture.inductor.sizes import parse_optional_size, parse_optional_sizes, sizes_of_inputs
from tilesight.capture.inductor.slices import Parts, Slices, slices_bytes
from tilesight.capture.inductor.tensor_steps import TensorStep, parse_optional_step
from tilesight.errors import CaptureError

_ALLOCATORS = ("empty_strided_cuda", "empty_strided_cpu", "empty_strided_cpu_pinned")
_ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "int16": 2, "float16": 2,
    "bfloat16": 2, "int32": 4, "float32": 4, "int64": 8, "float64": 8, "complex64": 8,
}  # fmt: skip


Wrapper = tuple[tuple[GeneratedKernel, ...], tuple[Call, ...], dict[str, Buffer], tuple[str, ...], dict[str, int]]


def read_wrapper(code: str) -> Wrapper:
    """(kernels, calls in order, buffers by name, output names, sizes by name) of a generated wrapper.

    Sizes are what the symbols of a dynamic shape stood for in the call that was compiled.

    Raises: CaptureError: when the text has no `call` function
    """
    tree = ast.parse(code)
    kernels = {kernel.name: kernel for kernel in kernels_in(tree)}
    partitions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef) and f.name.startswith("partition_")}
    reader = _CallReader(code, kernels, sizes_of_inputs(tree), _input_examples(tree), partitions)
    reader.read(_call_function(tree))
    return tuple(kernels.values()), tuple(reader.calls), reader.buffers, reader.outputs, reader.sizes


def _call_function(tree: ast.Module) -> ast.FunctionDef:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "call":
            return node
    raise CaptureError("the generated wrapper has no call function", next_step="report the torch version")


def _input_examples(tree: ast.Module) -> dict[str, Buffer]:
    """Graph inputs as the wrapper's own benchmark makes them: `x = rand_strided(shape, strides, …)`."""
    found: dict[str, Buffer] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="rand_strided"), args=[shape, strides, *_], keywords=keywords),
            ):
                dtype = next((ast.unparse(k.value) for k in keywords if k.arg == "dtype"), "torch.float32")
                found[name] = _buffer(name, shape, strides, dtype, {})
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr="as_strided"), args=[ast.Name(id=storage), shape, strides, *_]),
            ) if storage in found:  # inputs that share memory
                found[name] = _buffer(name, shape, strides, found[storage].dtype, {})
            case _:
                continue
    return found


def _buffer(name: str, shape: ast.expr, strides: ast.expr, dtype: str, known_sizes: Mapping[str, int]) -> Buffer:
    sizes, steps = parse_optional_sizes(shape, known_sizes), parse_optional_sizes(strides, known_sizes)
    short = dtype.removeprefix("torch.")
    item = _ITEM_BYTES.get(short)
    known = sizes is not None and item is not None
    return Buffer(name, sizes or (), steps or (), short, prod(sizes or ()) * (item or 0) if known else None)


class _CallReader:
    """Walks the statements of `call` in order and keeps what each does to which buffer."""

    def __init__(
        self,
        code: str,
        kernels: dict[str, GeneratedKernel],
        passed_sizes: dict[str, int],
        examples: dict[str, Buffer],
        partitions: dict[str, ast.FunctionDef],
    ) -> None:
        self._lines = code.splitlines()
        self._comments = comments_by_line(code)
        self._kernels = kernels
        self.calls: list[Call] = []
        self.buffers: dict[str, Buffer] = {}
        self.outputs: tuple[str, ...] = ()
        self.sizes: dict[str, int] = {}
        self._passed_sizes = passed_sizes
        self._examples = examples
        self._partitions = partitions
        self._arguments: set[str] = set()
        self._alias: dict[str, str] = {}
        self._views: set[str] = set()
        self._slices = Slices()
        self._written: set[str] = set()
        self._results: dict[str, int] = {}

    def read(self, function: ast.FunctionDef) -> None:
        for statement in _statements(function.body):
            self._statement(statement)

    def _unpack(self, names: list[ast.expr]) -> None:
        """The graph inputs: only those the wrapper unpacks count."""
        self._arguments |= {n.id for n in names if isinstance(n, ast.Name)}
        self.sizes |= {name: size for name, size in self._passed_sizes.items() if name in self._arguments}
        for name in self._arguments & self._examples.keys():
            self.buffers.setdefault(name, self._examples[name])

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names) | ast.List(elts=names)], value=ast.Name(id="args")):
                self._unpack(names)
            case ast.Assign(value=ast.Call(func=ast.Subscript(value=ast.Attribute(attr="partitions"), slice=number))):
                self.read(self._partitions[f"partition_{ast.unparse(number)}"])  # its names are those outside
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assignment(name, value)
            case ast.Expr(
                value=ast.Call(
                    func=ast.Name(id="assert_size_stride" | "assert_tensor_metadata"),
                    args=[ast.Name(id=name), shape, strides, *_],
                )
            ):  # torch 2.13 adds the operator's name, 2.14 the dtype before it
                self._laid_out(name, shape, strides)
            case ast.Expr(value=ast.Call() as call):
                self._call(call, result=None)
            case ast.Return(value=ast.Tuple(elts=elements)):
                self.outputs = tuple(self._read_name(n) for e in elements for n in _names(e)[:1])
            case _:
                pass

    def _assignment(self, name: str, value: ast.expr) -> None:
        match value:
            case ast.Call(func=ast.Name(id=allocator), args=[shape, strides, dtype]) if allocator in _ALLOCATORS:
                self.buffers[name] = _buffer(name, shape, strides, ast.unparse(dtype), self.sizes)
            case _ if (size := parse_optional_size(value, self.sizes)) is not None:
                self.sizes[name] = size
            case ast.Name(id=other):
                self._alias[name] = other
            case ast.Call(func=ast.Name(id="reinterpret_tensor"), args=[ast.Name(id=other), shape, strides, *_]):
                self._alias[name] = other
                is_reuse = "# reuse" in self._lines[value.lineno - 1]
                self._reinterpreted(name, other, shape, strides, is_reuse=is_reuse)
                if not is_reuse:
                    self._slices.name(name, value, self.sizes)
            case ast.Subscript(value=ast.Name(id=other), slice=place) if other in self._results:
                self._item(name, other, parse_optional_size(place, {}))
            case ast.Subscript(value=ast.Name(id=other)):
                self._alias[name] = other
            case ast.Call(func=ast.Name(id="copy_if_misaligned" | "get_raw_stream")):
                pass
            case _ if (step := parse_optional_step(value, self.sizes)) is not None:
                self.calls.append(self._torch_step(step, name))
            case ast.Call():
                self._call(value, result=name)
            case _:
                pass

    def _item(self, name: str, result: str, place: int | None) -> None:
        """One of the tensors that an extern call returns: a tensor of its own, which the call writes."""
        position = self._results[result]
        call = self.calls[position]
        others = tuple(written for written in call.writes if written != result)
        self.calls[position] = replace(call, writes=(*others, name))
        self.buffers.pop(result, None)
        self.buffers[name] = Buffer(name, (), (), "", None, item=place)
        self._mark_written([name])

    def _laid_out(self, name: str, shape: ast.expr, strides: ast.expr) -> None:
        """What the wrapper asserts of an extern call's result: its shape and strides."""
        buffer = self.buffers.get(name)
        if buffer is not None and not buffer.dtype:
            sizes, steps = parse_optional_sizes(shape, self.sizes), parse_optional_sizes(strides, self.sizes)
            self.buffers[name] = replace(buffer, shape=sizes or (), strides=steps or ())

    def _torch_step(self, step: TensorStep, result: str) -> Call:
        """A step in plain torch: it reads a run of a buffer, and makes a tensor of its type."""
        source = self._read_name(step.source)
        read = self.buffers.get(source)
        item = _ITEM_BYTES.get(read.dtype) if read else None
        bytes_read = step.elements * item if step.elements is not None and item else None
        is_known = step.shape is not None and item is not None
        size = prod(step.shape or ()) * (item or 0) if is_known else None
        shape = step.shape or ()
        strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))  # what it makes is contiguous
        self.buffers[result] = Buffer(result, shape, strides, read.dtype if read else "", size)
        self._mark_written([result])
        maker = next((call for call in reversed(self.calls) if call.is_triton and source in call.writes), None)
        nodes, ops = (maker.nodes, maker.ops) if maker else ((), ())
        part = {} if bytes_read is None else {source: bytes_read}
        return Call(f"torch.{step.operator}", False, (), (source,), (result,), nodes, ops, read_bytes=part)

    def _reinterpreted(self, name: str, other: str, shape: ast.expr, strides: ast.expr, *, is_reuse: bool) -> None:
        """A view of `other`, or a new tensor that takes over its memory (`# reuse`)."""
        source = self.buffers.get(other) or self.buffers.get(self._held_by(other))
        if not is_reuse:
            self._views.add(name)
        elif source is not None:
            self.buffers[name] = replace(_buffer(name, shape, strides, source.dtype, self.sizes), reuses=source.name)

    def _call(self, call: ast.Call, result: str | None) -> None:
        name = ast.unparse(call.func)
        if name.endswith(".run") and name.removesuffix(".run") in self._kernels:
            self.calls.append(self._launch(call, self._kernels[name.removesuffix(".run")]))
        elif name in self._kernels and self._kernels[name].category == CPP:
            self.calls.append(replace(self._launch(call, self._kernels[name]), is_triton=False))
        elif name.startswith(("extern_kernels.", "torch.ops.", "aten.")):
            self.calls.append(self._extern(call, name, result))

    def _launch(self, call: ast.Call, kernel: GeneratedKernel) -> Call:
        reads: list[str] = []
        writes: list[str] = []
        parts: tuple[Parts, Parts] = ({}, {})
        for parameter, argument in zip(kernel.signature, call.args, strict=False):
            for name in _names(argument)[:1]:
                sides = self._sort_operand(kernel, parameter, name, reads, writes)
                for side, held in zip(parts, sides, strict=True):
                    self._slices.note(side, held, argument, self.sizes)
        self._mark_written(writes)
        nodes, ops = self._comment_above(call.lineno)
        texts = tuple(ast.unparse(a) for a in call.args)
        read, written = map(self._bytes_of, parts)
        sides = _unique(reads), _unique(writes)
        return Call(kernel.name, True, texts, *sides, nodes, ops, read_bytes=read, write_bytes=written)

    def _sort_operand(
        self, kernel: GeneratedKernel, parameter: str, name: str, reads: list[str], writes: list[str]
    ) -> tuple[str, str]:
        """The buffer that it reads by this operand, and the one that it writes; empty where it does not."""
        if not kernel.signature[parameter].startswith("*"):
            return "", ""
        is_in_out = parameter.startswith(("in_out_ptr", "ws_ptr")) or parameter in kernel.mutated
        is_out = is_in_out or parameter.startswith("out_ptr")
        is_read = not is_out or (is_in_out and (kernel.category == CPP or is_loaded(kernel.source, parameter)))
        read, written = self._read_name(name) if is_read else "", self._write_name(name) if is_out else ""
        reads += [read] if is_read else []
        writes += [written] if is_out else []
        return read, written

    def _extern(self, call: ast.Call, name: str, result: str | None) -> Call:
        known = self._known()
        operands = [self._read_name(n) for a in call.args for n in _names(a) if n in known]
        parts: Parts = {}
        for operand in _operands(call.args):
            for n in _names(operand)[:1]:
                self._slices.note(parts, self._read_name(n) if n in known else "", operand, self.sizes)
        outs = [self._write_name(n) for k in call.keywords if k.arg == "out" for n in _names(k.value)[:1]]
        written: Parts = {}
        for keyword in call.keywords:
            if keyword.arg == "out":
                self._slices.note(written, outs[0] if outs else "", keyword.value, self.sizes)
        if result is not None:
            outs.append(result)
            self._results[result] = len(self.calls)
            self.buffers.setdefault(result, Buffer(result, (), (), "", None))
        self._mark_written(outs)
        nodes, ops = self._comment_above(call.lineno)
        short = name.removeprefix("torch.ops.").removeprefix("extern_kernels.")
        texts = tuple(ast.unparse(a) for a in call.args)
        rows = self._rows_looked_up(short, call)
        return Call(
            kernel=short,
            is_triton=False,
            arguments=texts,
            reads=_unique(operands),
            writes=_unique(outs),
            nodes=nodes,
            ops=ops,
            read_bytes=self._bytes_of(parts) | rows,
            write_bytes=self._bytes_of(written),
            chosen=frozenset(rows),
        )

    def _bytes_of(self, parts: Parts) -> dict[str, int]:
        """Bytes of the slices of each buffer, of the buffers of a known type that are used by slices alone."""
        items = {name: _ITEM_BYTES.get(self.buffers[name].dtype) for name in parts if name in self.buffers}
        found = {name: item and slices_bytes(parts[name], item) for name, item in items.items()}
        return {name: size for name, size in found.items() if size is not None}

    def _rows_looked_up(self, operator: str, call: ast.Call) -> dict[str, int]:
        """What an embedding bag reads of its table: at most a row an index."""
        if "_embedding_bag" not in operator or "backward" in operator or len(call.args) < 2:
            return {}
        names = [self._read_name(found[0]) for found in map(_names, call.args[:2]) if found]
        table, indices = (self.buffers.get(name) for name in names) if len(names) == 2 else (None, None)
        item = _ITEM_BYTES.get(table.dtype) if table else None
        if table is None or indices is None or item is None or len(table.shape) != 2 or not indices.shape:
            return {}
        return {table.name: prod(indices.shape) * table.shape[1] * item}

    def _known(self) -> set[str]:
        return self._arguments | set(self.buffers) | set(self._alias)

    def _read_name(self, name: str) -> str:
        """The tensor a name holds now: `buf1 = buf0  # reuse` is buf0 until something writes buf1."""
        while name in self._alias and name not in self._written:
            name = self._alias[name]
        return name

    def _write_name(self, name: str) -> str:
        """The tensor that a store makes: a view's storage, but a reused buffer's own new name."""
        while name in self._views:
            name = self._alias[name]
        return name

    def _mark_written(self, names: list[str]) -> None:
        for name in names:
            self._written.add(name)
            source = self.buffers.get(self._held_by(name))
            if source is not None:
                self.buffers.setdefault(name, replace(source, name=name, reuses=source.name))

    def _held_by(self, name: str) -> str:
        """The buffer whose memory a name takes over, through the names between; empty where it is no alias."""
        held = self._alias.get(name, "")
        while held and held not in self.buffers:
            held = self._alias.get(held, "")
        return held

    def _comment_above(self, line: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        for number in range(line - 1, max(0, line - 6), -1):
            if number in self._comments:
                return self._comments[number]
        return (), ()


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in order; `with` blocks and ifs are entered, since they only set the device."""
    for statement in body:
        if isinstance(statement, ast.With | ast.If):
            yield from _statements(statement.body)
        else:
            yield statement


def _names(expression: ast.expr) -> list[str]:
    """Names in an expression that may be buffers, functions that are called left out."""
    called = {id(node.func) for node in ast.walk(expression) if isinstance(node, ast.Call)}
    return [n.id for n in ast.walk(expression) if isinstance(n, ast.Name) and id(n) not in called]


def _operands(arguments: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """A call's arguments, those in lists and tuples one by one."""
    for argument in arguments:
        if isinstance(argument, ast.Tuple | ast.List):
            yield from _operands(argument.elts)
        else:
            yield argument


def _unique(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
