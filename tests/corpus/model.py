"""A kernel with one seeded fault, its repaired twin, and the lines where a report may point."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tilesight import Case

Shape = Literal["vector", "row", "matmul", "attention", "atomic"]
Launch = Callable[[], Any]

FAULT_MARK = "# fault"


@dataclass(frozen=True)
class Seeded:
    """One fault of one kind, and the same code without it.

    Args:
        kind: slug of the fault, such as "out-of-bounds"
        name: says what the author got wrong; unique within its kind
        shape: the family of kernels that it stands for
        faulty: a function without arguments that launches, or a case
        repaired: the same with the repair alone
        functions: Triton or plain functions whose sources hold the lines marked `# fault`
        scale_to: elements to scale the shapes to, where the fault shows in large sizes only
        target: the GPU that the fault is about
        expected: what the repaired launch returns, from torch in float64 or in integers; None for a case
    """

    kind: str
    name: str
    shape: Shape
    faulty: Launch | Case
    repaired: Launch | Case
    functions: tuple[Any, ...]
    scale_to: int | None = None
    target: str = "h200"
    expected: Launch | None = None

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def pair(
    kind: str,
    name: str,
    shape: Shape,
    launch: Callable[[Any], Any],
    kernels: tuple[Any, Any],
    expected: Launch,
    lines: tuple[Any, ...] = (),
) -> Seeded:
    """A fault in a kernel: `launch` takes the faulty kernel, or the repaired one.

    Args:
        kernels: the faulty one and its twin
        lines: functions that hold the marked lines; the faulty kernel when empty
    """
    faulty, repaired = kernels
    launches = partial(launch, faulty), partial(launch, repaired)
    return Seeded(kind, name, shape, *launches, lines or (faulty,), expected=expected)


def fault_lines(seeded: Seeded) -> set[tuple[str, int]]:
    """The (file, line) pairs where a report of the fault may rightly point.

    Raises: ValueError: when no line of its functions is marked
    """
    found: set[tuple[str, int]] = set()
    for function in seeded.functions:
        found |= _marked(_plain(function))
    if not found:
        raise ValueError(f"{seeded}: no line of its functions is marked {FAULT_MARK!r}")
    return found


def _marked(function: Callable[..., Any]) -> set[tuple[str, int]]:
    lines, first = inspect.getsourcelines(function)
    file = str(Path(inspect.getsourcefile(function) or "").resolve())
    return {(file, first + index) for index, line in enumerate(lines) if line.rstrip().endswith(FAULT_MARK)}


def _plain(function: Any) -> Callable[..., Any]:
    while not inspect.isfunction(function):
        function = function.fn
    return function
