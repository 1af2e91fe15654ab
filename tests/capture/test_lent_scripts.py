"""Scripts and files that say device="cuda", through the roads of run, trace and compare, with no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tilesight.errors import InputError
from tilesight.roads.compare import compare_spec
from tilesight.roads.run import run_script
from tilesight.roads.trace import trace_spec

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="lent only where there is no GPU")

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def add(x, y):
    assert x.is_cuda and y.device == x.device
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out


"""


def script(folder: Path, body: str) -> Path:
    file = folder / "script.py"
    file.write_text(KERNEL + body)
    return file


def test_a_script_with_kernels_runs_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = """
DEVICE = triton.runtime.driver.active.get_active_torch_device()
assert torch.cuda.is_available() and DEVICE.type == "cuda"
x, y = torch.randn(1000, device=DEVICE), torch.randn(1000).to("cuda")
out = add(x, y)
assert torch.equal(out, x + y) and torch.equal(out.cpu(), x.cpu() + y.cpu())
"""
    run = run_script(str(script(tmp_path, body)), [], target="h200", check=False)
    assert (run.exit, [launch.kernel for launch in run.launches]) == (0, ["add_kernel"])
    assert [tensor.name for tensor in run.launches[0].tensors] == ["x", "y", "out"]
    assert capsys.readouterr().err.count("no GPU here") == 1


def test_a_script_with_torch_compile_and_a_kernel_trains(tmp_path: Path) -> None:
    body = """
import copy

@torch.compile
def scaled(x):
    assert x.is_cuda and x.device.type == "cuda"
    return torch.relu(x) * torch.arange(x.shape[-1], device="cuda") + torch.ones(1, device=x.device)

x = torch.randn(8, 16, device="cuda")
out = scaled(x)
assert out.is_cuda
assert torch.allclose(out, torch.relu(x) * torch.arange(16, device="cuda") + 1)

module = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.GELU()).cuda()
plain = copy.deepcopy(module)
compiled = torch.compile(module)
for net, weights in ((compiled, module), (plain, plain)):
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(weights.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        hidden = net(torch.randn(4, 16, device="cuda"))
        add(hidden.detach(), hidden.detach())
        hidden.square().mean().backward()
        assert weights[0].weight.grad.is_cuda
        optimizer.step()
assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(module.parameters(), plain.parameters()))
"""
    run = run_script(str(script(tmp_path, body)), [], target="h200", check=False)
    assert run.exit == 0
    names = [launch.kernel for launch in run.launches]
    assert names.count("add_kernel") == 4
    assert sum(name.startswith("triton_") for name in names) >= 5
    assert len(run.regions) >= 2


def test_a_triton_op_is_launched_eagerly_and_within_torch_compile(tmp_path: Path) -> None:
    body = """
@torch.library.triton_op("lent_script::add", mutates_args=())
def add_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    assert x.device.type == "cuda"
    out = torch.empty_like(x)
    torch.library.wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), 128)
    return out

x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
assert torch.equal(add_op(x, y), x + y)
compiled = torch.compile(lambda a, b: add_op(a.sin(), b).cos())
out = compiled(x, y)
assert out.is_cuda and torch.allclose(out, (x.sin() + y).cos(), atol=1e-6)
"""
    run = run_script(str(script(tmp_path, body)), [], target="h200", check=False)
    assert [launch.kernel for launch in run.launches].count("add_kernel") == 2


def test_a_failed_assertion_of_the_script_is_told_with_its_line(tmp_path: Path) -> None:
    file = script(tmp_path, "assert not torch.ones(1, device='cuda').is_cuda\n")
    with pytest.raises(InputError, match=rf"script.py:{len(KERNEL.splitlines()) + 1}: AssertionError"):
        run_script(str(file), [], target="h200", check=False)
    assert not torch.cuda.is_available()


def test_a_launch_function_of_such_a_file_is_traced(tmp_path: Path) -> None:
    body = """
BIAS = torch.ones(300, device="cuda")

def launch():
    add(torch.randn(300, device="cuda"), BIAS)
"""
    traces = trace_spec(f"{script(tmp_path, body)}:launch", [], target="h200")
    assert [(trace.kernel, trace.programs) for trace in traces] == [("add_kernel", 3)]


def test_a_case_of_such_a_file_is_compared(tmp_path: Path) -> None:
    body = """
import tilesight

def eager(x, y):
    return x + y + torch.zeros(x.shape, device="cuda")

CASE = tilesight.Case(
    eager=eager, hand=add, inputs=lambda: (torch.randn(300, device="cuda"), torch.randn(300).cuda())
)
"""
    comparison = compare_spec(f"{script(tmp_path, body)}:CASE", on=None, target="h200")
    assert {provider.name: provider.ok for provider in comparison.providers} == {
        "eager": True,
        "compiled": True,
        "hand": True,
    }


def test_a_builtin_is_a_case(tmp_path: Path) -> None:
    body = """
import tilesight

CASE = tilesight.Case(eager=torch.relu, inputs="f32[300]")
"""
    comparison = compare_spec(f"{script(tmp_path, body)}:CASE", on=None, target="h200")
    assert [(provider.name, provider.ok) for provider in comparison.providers] == [("eager", True), ("compiled", True)]
