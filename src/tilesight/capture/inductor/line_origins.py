"""Which ATen node each value of a generated kernel stands for, noted while Inductor makes it.

An ATen node is lowered to a function that is called inside the functions of its readers. Each such function is
marked with its node, each step of a loop's body with the function that was running, and each value of the kernel
(`tmp7`) with the steps that asked for it: equal values are made once, for several nodes. The code stays as it is.
Seen to work on torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from typing import Any
from unittest.mock import patch

_MARK = "tilesight_origin"

Values = dict[str, tuple[str, ...]]


class LineOrigins:
    """What was heard: by kernel, the scheduler's operations in it and the ATen nodes behind its values."""

    def __init__(self) -> None:
        self._running: list[str] = []
        self._kernels: dict[int, tuple[Any, set[str], dict[str, dict[str, None]]]] = {}

    @property
    def current(self) -> str:
        """The ATen node whose function runs; empty for none."""
        return self._running[-1] if self._running else ""

    @contextlib.contextmanager
    def running(self, node: str) -> Generator[None]:
        self._running.append(node)
        try:
            yield
        finally:
            self._running.pop()

    def note(self, kernel: Any, operation: str, value: str, node: str) -> None:
        """A value of a kernel stands for an ATen node; values that stand for none are kept out."""
        _, operations, values = self._kernels.setdefault(id(kernel), (kernel, set(), {}))
        operations.add(operation)
        if node:
            values.setdefault(value, {})[node] = None

    def forget(self) -> None:
        """Begin anew, for the next graph."""
        self._kernels.clear()

    def values_of(self, operations: Sequence[str]) -> Values:
        """ATen nodes by value of the kernel that runs these operations.

        Where Inductor wrote several kernels for them, the one that it named is meant; without one all are.
        """
        wanted = set(operations)
        found = [each for each in self._kernels.values() if each[1] and each[1] <= wanted]
        named = [each for each in found if getattr(each[0], "kernel_name", None)]
        merged: dict[str, dict[str, None]] = {}
        for _, _, values in named[-1:] or found:
            for value, nodes in values.items():
                merged.setdefault(value, {}).update(nodes)
        return {value: tuple(nodes) for value, nodes in merged.items()}


@contextlib.contextmanager
def hear_lines(lines: LineOrigins) -> Generator[None]:
    """While it lasts, what Inductor lowers and generates is noted."""
    with _functions_marked(lines), _steps_marked(lines), _values_noted(lines):
        yield


@contextlib.contextmanager
def _functions_marked(lines: LineOrigins) -> Generator[None]:
    """Each loop's function, as it is made, remembers the ATen node that is being lowered."""
    ir: Any = import_module("torch._inductor.ir")
    virtualized: Any = import_module("torch._inductor.virtualized")
    begin = ir.IRNode.__post_init__

    def post_init(self: Any) -> None:
        begin(self)
        node = getattr(virtualized.V.graph, "current_node", None)
        function = getattr(self, "inner_fn", None)
        if isinstance(self, ir.Loops) and function is not None and node is not None:
            object.__setattr__(self, "inner_fn", _marked(function, node.name, lines))
            object.__setattr__(self, _MARK, node.name)

    with patch.object(ir.IRNode, "__post_init__", post_init):
        yield


def _marked(function: Callable[..., Any], node: str, lines: LineOrigins) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with lines.running(node):
            return function(*args, **kwargs)

    return run


@contextlib.contextmanager
def _steps_marked(lines: LineOrigins) -> Generator[None]:
    """Each step of a loop's body keeps its node, also where the body is walked again for another order."""
    bodies: Any = import_module("torch._inductor.loop_body")
    create, run = bodies.LightTracer.create_node, bodies.InterpreterShim.run_node

    def create_node(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = create(self, *args, **kwargs)
        if lines.current:
            node.meta[_MARK] = lines.current
        return node

    def run_node(self: Any, n: Any) -> Any:
        with lines.running(n.meta.get(_MARK, "")):
            return run(self, n)

    with (
        patch.object(bodies.LightTracer, "create_node", create_node),
        patch.object(bodies.InterpreterShim, "run_node", run_node),
    ):
        yield


@contextlib.contextmanager
def _values_noted(lines: LineOrigins) -> Generator[None]:
    """Each value that a kernel's code names, and each that it asks for again."""
    common: Any = import_module("torch._inductor.codegen.common")
    virtualized: Any = import_module("torch._inductor.virtualized")

    def noting(make: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            value = make(self, *args, **kwargs)
            kernel = virtualized.V.kernel
            node = getattr(kernel, "current_node", None)
            if node is not None:
                origin = lines.current or getattr(getattr(node.node, "data", None), _MARK, "")
                lines.note(kernel, node.get_name(), str(value), origin)
            return value

        return run

    with (
        patch.object(common.CSE, "generate", noting(common.CSE.generate)),
        patch.object(common.CSE, "newvar", noting(common.CSE.newvar)),  # a reduction's result has no text of its own
    ):
        yield
