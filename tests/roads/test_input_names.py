"""Inputs under the names that a launcher's author gave them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tests.kernels import checked
from tilesight import Case, check
from tilesight.roads.failures import place_of
from tilesight.roads.input_names import input_names, required_parameters


def plain(x: Any, y: Any = None, /, z: Any = 1, *, scale: float = 1.0) -> None: ...


def variadic(first: Any, *tensors: Any, **options: Any) -> None: ...


@functools.wraps(plain)
def decorated(*arguments: Any, **options: Any) -> None: ...


class Launcher:
    def __call__(self, q: Any, k: Any) -> None: ...

    def method(self, a: Any, b: Any) -> None: ...

    @staticmethod
    def apart(u: Any, v: Any) -> None: ...

    @classmethod
    def of(cls, m: Any, n: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (plain, ["x", "y", "z"]),
        (variadic, ["first", "tensors[0]", "tensors[1]"]),
        (decorated, ["x", "y", "z"]),
        (functools.partial(plain, 0), ["y", "z", "inputs[2]"]),
        (functools.partial(plain, 0, scale=2.0), ["y", "z", "inputs[2]"]),
        (functools.partial(functools.partial(variadic, 0), 1), ["tensors[0]", "tensors[1]", "tensors[2]"]),
        (functools.partial(Launcher().method, 0), ["b", "inputs[1]", "inputs[2]"]),
        (lambda a, b, c: None, ["a", "b", "c"]),
        (lambda *parts: None, ["parts[0]", "parts[1]", "parts[2]"]),
        (Launcher(), ["q", "k", "inputs[2]"]),
        (Launcher().method, ["a", "b", "inputs[2]"]),
        (Launcher.apart, ["u", "v", "inputs[2]"]),
        (Launcher.of, ["m", "n", "inputs[2]"]),
        (max, ["inputs[0]", "inputs[1]", "inputs[2]"]),
    ],
)  # fmt: skip
def test_names_are_those_of_the_author(function: Callable[..., Any], names: list[str]) -> None:
    assert input_names(function, 3) == names


@pytest.mark.parametrize(
    ("function", "names"),
    [(plain, ["x"]), (variadic, ["first"]), (Launcher(), ["q", "k"]), (functools.partial(plain, 0), []), (max, [])],
)
def test_what_a_call_has_to_give(function: Callable[..., Any], names: list[str]) -> None:
    assert required_parameters(function) == names


@pytest.mark.parametrize("function", [plain, functools.partial(plain, 0), Launcher(), Launcher().method])
def test_the_place_of_a_callable(function: Callable[..., Any]) -> None:
    file, line = place_of(function)
    assert str(file) == __file__ and line > 0


def test_a_callable_without_a_place() -> None:
    assert place_of(max)[1] == 0


def test_a_layout_finding_names_the_tensor_of_a_partial_launcher() -> None:
    def launch(first: Any, second: Any) -> Any:
        return checked.double_as_if_contiguous(second)

    case = Case(eager=checked.doubled, hand=functools.partial(launch, None), inputs="f32[12,20]")
    (stride,) = [each for each in check(case, shapes="12,20", dtypes="f32").findings if each.kind == "stride"]
    assert "right for a contiguous second; when second is transposed" in stride.message
    assert "second.stride()" in stride.hint and "second.contiguous()" in stride.hint
