"""Launches that can't be: each is refused with the place and what to do, and writes to no tensor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import tilesight
from tests.kernels.basic import add_kernel
from tilesight.capture.launches import EngineSession
from tilesight.errors import InputError, ParseError, TilesightError, UnsupportedError
from tilesight.roads.run import run_script
from tilesight.roads.traces import TraceObserver

add: Any = add_kernel


@pytest.fixture
def engine() -> Iterator[EngineSession]:
    yield tilesight.enable()
    tilesight.disable()


def place(text: str) -> str:
    """file:line of the call in this file that holds `text`."""
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{next(number for number, line in enumerate(lines, 1) if text in line)}"


TENSORS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "meta": (lambda: torch.empty(64, device="meta"), "x_ptr is on meta and has no data; expected a CPU tensor"),
    "negated": (
        lambda: torch.randn(64, dtype=torch.complex64).conj().imag,
        "its memory holds other values.*resolve_neg",
    ),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_a_tensor_whose_bytes_are_not_its_values_is_refused(engine: EngineSession, kind: str) -> None:
    make, message = TENSORS[kind]
    out = torch.zeros(64)
    with pytest.raises(InputError, match=message) as caught:
        add[(1,)](make(), out, out, 64, BLOCK=64)  # refused tensor
    assert caught.value.where == place("# refused" + " tensor")
    assert not out.any()


GRIDS: dict[str, tuple[tuple[Any, ...], str]] = {
    "x": ((2**31,), "2147483648 programs along x .* expected 0 to 2,147,483,647"),
    "y": ((1, 65_536), "65536 programs along y .* expected 0 to 65,535"),
    "z": ((1, 1, 65_536), "65536 programs along z .* expected 0 to 65,535"),
    "negative": ((-1,), "-1 programs along x"),
    "fraction": ((1.5,), r"a grid of \(1.5, 1, 1\); expected whole numbers"),
}


@pytest.mark.parametrize("kind", GRIDS)
def test_a_grid_that_no_gpu_launches_is_refused(engine: EngineSession, kind: str) -> None:
    grid, message = GRIDS[kind]
    x, out = torch.ones(64), torch.zeros(64)
    with pytest.raises(InputError, match=message) as caught:
        add[grid](x, x, out, 64, BLOCK=64)  # refused grid
    assert caught.value.where == place("# refused" + " grid")
    assert not out.any()


@pytest.mark.parametrize("grid", [(0,), (3, 0), (1, 1, 0)])
def test_an_empty_grid_runs_nothing_and_is_recorded(engine: EngineSession, grid: tuple[int, ...]) -> None:
    observer = TraceObserver()
    engine.observers.append(observer)
    x, out = torch.ones(64), torch.zeros(64)
    add[grid](x, x, out, 64, BLOCK=64)
    assert not out.any()
    assert [(trace.programs, trace.traffic.bytes.requested) for trace in observer.traces] == [(0, 0)]


def test_the_largest_y_is_launched(engine: EngineSession) -> None:
    x, out = torch.ones(64), torch.zeros(64)
    add[(1, 65_535)](x, x, out, 64, BLOCK=64)
    assert out.tolist() == [2.0] * 64


BROKEN_TEXTS: dict[str, tuple[str, str, type[TilesightError], str]] = {
    "syntax": ("tt.store", "tt.store ,", ParseError, r"<ttir>:\d+:\d+: .*expected"),
    "types": ("tensor<64xi32>", "tensor<32xi32>", TilesightError, r":\d+"),
    "an unknown operation": ("tt.splat", "tt.splash", TilesightError, "tt.splash"),
}


@pytest.mark.parametrize("kind", BROKEN_TEXTS)
def test_text_that_is_no_ttir_is_refused_before_anything_runs(
    engine: EngineSession, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    good, bad, error, message = BROKEN_TEXTS[kind]
    x, out = torch.ones(64), torch.zeros(64)
    compiled = add.warmup(x, x, out, 64, BLOCK=64, grid=(1,))
    compiled._init_handles()
    text = compiled.asm["ttir"]
    assert good in text
    broken = text.replace(good, bad, 1)
    monkeypatch.setattr(compiled, "kernel", broken.encode())
    monkeypatch.setattr(compiled, "function", broken)
    with pytest.raises(error, match=message):
        compiled[(1, 1, 1)](x, x, out, 64, 64)
    assert not out.any()


SCRIPT = """
import torch
import triton
import triton.language as tl


@triton.jit
def doubled(x):
    return x.twice


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def outer_kernel(x_ptr, out_ptr):
    value = tl.load(x_ptr)
    tl.store(out_ptr, doubled(value))


@triton.jit
def assembly_kernel(x_ptr, out_ptr):
    value = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(out_ptr + tl.arange(0, 64), value)
    value = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + tl.arange(0, 64), value)


x, out = torch.ones(64), torch.zeros(64)
"""
LAST_LINE = len(SCRIPT.splitlines()) + 1


def line_with(text: str) -> int:
    return next(number for number, line in enumerate(SCRIPT.splitlines(), 1) if text in line)


LAUNCHES: dict[str, tuple[str, int, str]] = {
    "one too few": ("add_kernel[(1,)](x, x, out, BLOCK=64)", LAST_LINE, "missing 1 required positional argument: 'n'"),
    "one too many": ("add_kernel[(1,)](x, x, out, 64, 64, 3)", LAST_LINE, "takes 5 positional arguments but 6"),
    "unknown name": ("add_kernel[(1,)](x, x, out, 64, BLOCK=64, WIDTH=3)", LAST_LINE, "WIDTH was specified"),
    "a string": ("add_kernel[(1,)](x, 'y', out, 64, BLOCK=64)", LAST_LINE, "argument of type: str"),
    "an array": ("add_kernel[(1,)](x, x.numpy(), out, 64, BLOCK=64)", LAST_LINE, "argument of type: numpy.ndarray"),
    "complex": ("add_kernel[(1,)](x.to(torch.complex64), x, out, 64, BLOCK=64)", LAST_LINE, "complex64"),
    "sparse": ("add_kernel[(1,)](x.to_sparse(), x, out, 64, BLOCK=64)", LAST_LINE, "doesn't have storage"),
    "a number": ("add_kernel[(1,)](x, 3.0, out, 64, BLOCK=64)", line_with("y_ptr + offsets"), "tl.load"),
    "in a callee": ("outer_kernel[(1,)](x, out)", line_with("x.twice"), "no attribute 'twice'"),
}


@pytest.mark.parametrize("kind", LAUNCHES)
def test_a_launch_that_triton_refuses_is_told_with_its_line(tmp_path: Path, kind: str) -> None:
    launch, line, message = LAUNCHES[kind]
    file = tmp_path / "script.py"
    file.write_text(f"{SCRIPT}{launch}\n")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        run_script(str(file), [], target="h200", check=False)
    assert caught.value.where == f"{file}:{line}"
    assert caught.value.next_step


def test_an_operation_without_a_rule_is_told_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        f"{SCRIPT}try:\n    assembly_kernel[(1,)](x, out)\nfinally:\n    print('untouched', not out.any().item())\n"
    )
    line = line_with("inline_asm_elementwise")
    with pytest.raises(UnsupportedError, match=rf"script.py:{line}: .*tt.elementwise_inline_asm"):
        run_script(str(file), [], target="h200", check=False)
    assert "untouched True" in capsys.readouterr().out


def test_the_users_own_errors_stay_their_own(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(f"{SCRIPT}add_kernel[lambda meta: (meta['WIDTH'],)](x, x, out, 64, BLOCK=64)\n")
    with pytest.raises(InputError, match=rf"script.py:{LAST_LINE}: .*KeyError: 'WIDTH'"):
        run_script(str(file), [], target="h200", check=False)
