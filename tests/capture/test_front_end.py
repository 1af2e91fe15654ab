"""Triton's own front end on the engine: what it specialises, inlines and checks reaches the kernel as on a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs

import tilesight
from tests.kernels import front_end
from tests.kernels.basic import add_kernel
from tilesight.capture.launches import EngineSession
from tilesight.engine import Execution, Launch
from tilesight.engine.listener import Listener
from tilesight.errors import ExecutionError

add: Any = add_kernel
copy_kernel: Any = front_end.copy_kernel
cast_kernel: Any = front_end.cast_kernel
twice: Any = front_end.twice
minus_one: Any = front_end.minus_one
mapped_kernel: Any = front_end.mapped_kernel
heuristic_kernel: Any = front_end.heuristic_kernel
checked_kernel: Any = front_end.checked_kernel
printing_kernel: Any = front_end.printing_kernel


class Launches:
    """Keeps what was launched."""

    def __init__(self) -> None:
        self.seen: list[Launch] = []

    def launch_begins(self, launch: Launch) -> tuple[Listener, ...]:
        self.seen.append(launch)
        return ()

    def launch_ends(self, launch: Launch, execution: Execution, listeners: object) -> None:
        return None


@pytest.fixture
def launches() -> Iterator[list[Launch]]:
    session: EngineSession = tilesight.enable()
    observer = Launches()
    session.observers.append(observer)
    yield observer.seen
    tilesight.disable()


def parameter_line(launch: Launch) -> str:
    return next(line for line in launch.ttir.splitlines() if "tt.func public" in line)


def parameter(launch: Launch, name: str) -> str | None:
    """The type and attributes of a parameter of the TTIR function; None where it was specialised away."""
    found = re.search(rf"%{name}(?:_ptr)?: (.*?) loc\(", parameter_line(launch))
    return found.group(1) if found else None


@pytest.mark.parametrize(("n", "divisible"), [(64, True), (48, True), (50, False)])
def test_divisibility_by_16_is_specialised(launches: list[Launch], n: int, divisible: bool) -> None:
    x, out = torch.randn(n), torch.empty(n)
    copy_kernel[(1,)](x, out, n, 1, None, BLOCK=64)
    assert torch.equal(out, x)
    assert parameter(launches[0], "n") == ("i32 {tt.divisibility = 16 : i32}" if divisible else "i32")


def test_an_unaligned_tensor_is_not_called_divisible(launches: list[Launch]) -> None:
    x, out = torch.randn(65), torch.empty(64)
    copy_kernel[(1,)](x[1:], out, 64, 1, None, BLOCK=64)
    assert torch.equal(out, x[1:])
    assert parameter(launches[0], "x") == "!tt.ptr<f32>"
    assert parameter(launches[0], "out") == "!tt.ptr<f32> {tt.divisibility = 16 : i32}"


@pytest.mark.parametrize("stride", [1, 2])
def test_one_and_none_are_specialised_away(launches: list[Launch], stride: int) -> None:
    x, out = torch.randn(128), torch.empty(64)
    copy_kernel[(1,)](x, out, 64, stride, None, BLOCK=64)
    assert torch.equal(out, x[: 64 * stride : stride])
    assert parameter(launches[0], "stride") == (None if stride == 1 else "i32")
    assert parameter(launches[0], "bias") is None
    assert launches[0].constexprs["bias_ptr"] is None


def test_another_specialisation_is_another_module(launches: list[Launch]) -> None:
    x, bias, out = torch.randn(64), torch.randn(64), torch.empty(64)
    copy_kernel[(1,)](x, out, 64, 1, bias, BLOCK=64)
    assert torch.equal(out, x + bias)
    copy_kernel[(1,)](x, out, 64, 1, None, BLOCK=64)
    assert torch.equal(out, x)
    assert launches[0].ttir != launches[1].ttir


@pytest.mark.parametrize(
    ("value", "type_"), [(3, "i32"), (2**31 + 1, "i64"), (2**63 + 1, "i64"), (0.5, "f32"), (True, "i1"), (False, "i1")]
)
def test_a_number_s_type_follows_its_value(launches: list[Launch], value: Any, type_: str) -> None:
    out = torch.empty(1, dtype=torch.float64)
    cast_kernel[(1,)](out, value)
    assert out.item() == float(value)
    assert parameter(launches[0], "value") == type_


@pytest.mark.parametrize(("function", "plain"), [(twice, lambda x: x * 2), (minus_one, lambda x: x - 1)])
def test_constexprs_may_be_functions_dtypes_and_counts(
    launches: list[Launch], function: Any, plain: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    x = torch.arange(16, dtype=torch.float32)
    out = torch.empty(16, dtype=torch.float16)
    mapped_kernel[(1,)](x, out, function, TIMES=3, DTYPE=tl.float16, N=16)
    expected = x
    for step in range(3):
        expected = plain(expected) + step
    assert out.tolist() == [*expected[:8].tolist(), *[0.0] * 8]
    assert launches[0].constexprs["TIMES"] == 3


def test_a_static_range_is_unrolled(launches: list[Launch]) -> None:
    x, out = torch.ones(16), torch.empty(16)
    for times in (1, 4):
        mapped_kernel[(1,)](x, out, twice, TIMES=times, DTYPE=tl.float32, N=16)
    assert [launch.ttir.count("arith.mulf") for launch in launches] == [1, 4]
    assert "scf.for" not in launches[1].ttir


@pytest.mark.parametrize(("n", "expected"), [(32, 3), (33, 0)])
def test_heuristics_see_arguments_and_each_other(launches: list[Launch], n: int, expected: int) -> None:
    out = torch.empty(16, dtype=torch.int32)
    heuristic_kernel[(1,)](out, n, BLOCK=16)
    assert out.tolist() == [expected] * 16


def test_options_are_accepted_and_recorded(launches: list[Launch]) -> None:
    x, out = torch.randn(100), torch.empty(100)
    add[(1,)](x, x, out, 100, BLOCK=128, num_warps=8, num_stages=5, maxnreg=64)
    assert torch.equal(out, x + x)
    assert launches[0].options == {"num_warps": 8, "num_stages": 5}


def test_arguments_may_come_by_name_in_any_order(launches: list[Launch]) -> None:
    x, out = torch.randn(100), torch.empty(100)
    add[(1,)](BLOCK=128, n=100, out_ptr=out, y_ptr=x, x_ptr=x)
    assert torch.equal(out, x + x)


def test_run_with_a_grid_launches_and_warmup_does_not(launches: list[Launch]) -> None:
    x, out = torch.randn(100), torch.zeros(100)
    warm = add.warmup(x, x, out, 100, BLOCK=128, grid=(1,))
    assert launches == [] and not out.any()
    assert "tt.func public @add_kernel" in warm.asm["ttir"]
    add.run(x, x, out, 100, BLOCK=128, grid=(1,), warmup=False)
    assert torch.equal(out, x + x)
    out.zero_()
    warm[(1, 1, 1)](x, x, out, 100, 128)
    assert torch.equal(out, x + x)
    assert len(launches) == 2


def test_a_warmup_without_tensors_compiles(launches: list[Launch]) -> None:
    warm = add.warmup(torch.float32, torch.float32, torch.float32, 100, BLOCK=128, grid=(1,))
    assert "!tt.ptr<f32>" in warm.asm["ttir"]
    assert launches == []


def test_hooks_before_a_run_and_around_a_launch_are_called(launches: list[Launch]) -> None:
    heard: list[str] = []
    x, out = torch.randn(16), torch.empty(16)

    @triton.jit
    def hooked_kernel(x_ptr, out_ptr):
        tl.store(out_ptr + tl.arange(0, 16), tl.load(x_ptr + tl.arange(0, 16)))

    hooked: Any = hooked_kernel
    hooked.add_pre_run_hook(lambda *args, **options: heard.append(f"before {len(args)}"))
    runtime: Any = knobs.runtime
    enter = lambda metadata: heard.append(f"enter {metadata.get()['name']} {len(launches)}")  # noqa: E731
    leave = lambda metadata: heard.append(f"exit {len(launches)}")  # noqa: E731
    runtime.launch_enter_hook.add(enter)
    runtime.launch_exit_hook.add(leave)
    try:
        hooked[(1,)](x, out)
    finally:
        runtime.launch_enter_hook.remove(enter)
        runtime.launch_exit_hook.remove(leave)
    assert heard == ["before 2", "enter hooked_kernel 0", "exit 1"]
    assert torch.equal(out, x)


def test_a_device_assert_names_program_and_line(launches: list[Launch]) -> None:
    kernel: Any = checked_kernel
    line = kernel.fn.__code__.co_firstlineno + 3
    with pytest.raises(ExecutionError, match=r"program 2.*too large") as caught:
        kernel[(4,)](torch.tensor([0, 1, 7, 1]), 5, debug=True)
    assert caught.value.where.endswith(f"{Path(front_end.__file__).name}:{line}")
    assert "x may be partly written" in str(caught.value)


def test_a_device_assert_is_left_out_without_debug(launches: list[Launch]) -> None:
    x = torch.tensor([0, 1, 7, 1])
    checked_kernel[(4,)](x, 5)
    assert x.tolist() == [1, 2, 8, 2]
    assert "tt.assert" not in launches[0].ttir


def test_the_debug_knob_asks_for_asserts(launches: list[Launch], monkeypatch: pytest.MonkeyPatch) -> None:
    """What TRITON_DEBUG=1 sets while Triton is imported."""
    monkeypatch.setattr(knobs.runtime, "debug", True)
    with pytest.raises(ExecutionError, match="too large"):
        checked_kernel[(1,)](torch.tensor([9]), 5)


def test_a_device_print_is_seen(launches: list[Launch], capsys: pytest.CaptureFixture[str]) -> None:
    printing_kernel[(2,)](torch.tensor([5, 7], dtype=torch.int32))
    lines = capsys.readouterr().out.splitlines()
    assert [re.search(r"pid \((\d), 0, 0\).*value.*(\d)$", line).groups() for line in lines] == [  # pyright: ignore[reportOptionalMemberAccess]
        ("0", "5"),
        ("1", "7"),
    ]


class AddFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add[(1,)](x, y, out, x.numel(), BLOCK=64)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (gradient,) = gradients
        out = torch.empty_like(gradient)
        add[(1,)](gradient, gradient, out, gradient.numel(), BLOCK=64)
        return out, gradient


def test_an_autograd_function_launches_both_ways(launches: list[Launch]) -> None:
    x, y = (torch.randn(50, requires_grad=True) for _ in range(2))
    AddFunction.apply(x, y).backward(torch.full((50,), 3.0))
    assert x.grad is not None and y.grad is not None
    assert (x.grad.unique().tolist(), y.grad.unique().tolist()) == ([6.0], [3.0])
    assert len(launches) == 2


def test_a_triton_op_runs_eagerly_on_cpu_tensors(launches: list[Launch]) -> None:
    with torch.library._scoped_library("front_end_test", "FRAGMENT"):

        @torch.library.triton_op("front_end_test::add", mutates_args=())  # pyright: ignore[reportUntypedFunctionDecorator]
        def add_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            torch.library.wrap_triton(add)[(1,)](x, y, out, x.numel(), 64)
            return out

        x, y = torch.randn(50), torch.randn(50)
        assert torch.equal(add_op(x, y), x + y)
    assert [launch.kernel for launch in launches] == ["add_kernel"]
