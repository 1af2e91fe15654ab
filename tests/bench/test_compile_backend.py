"""`torch.compile` with hand-written kernels where a store says that they are faster; kernels run on the engine."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner

from tests.bench.runs import timed
from tests.contracts.sources import ROOT
from tilesight.bench.compile_backend import Backend
from tilesight.bench.environment import environment_of
from tilesight.bench.model import BenchCase, BenchRun
from tilesight.bench.store import save_run, wanted_of
from tilesight.cli.app import app

HERE = environment_of("cpu", "")
FAST, SLOW = [1e-6, 1.01e-6, 1.02e-6], [2e-6, 2.01e-6, 2.02e-6]
Key = tuple[str, tuple[int, ...]]

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")


def store_of(
    path: Path, faster: Sequence[Key] = (), slower: Sequence[Key] = (), dtype: str = "float32", **environment: Any
) -> Path:
    """A store where ours is twice as fast, or half as fast, as torch.compile on this device."""
    cases = [
        BenchCase(name, shape, dtype, 1, None, (timed("compiled", theirs), timed("hand", ours)))
        for keys, ours, theirs in ((faster, FAST, SLOW), (slower, SLOW, FAST))
        for name, shape in keys
    ]
    save_run(BenchRun(replace(HERE, **environment), cases), path)
    return path


class Eagerly:
    """An inner compiler that keeps the graph and runs it as it is, gradients by autograd."""

    def __init__(self) -> None:
        self.targets: list[str] = []

    def __call__(self, graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        self.targets = [
            getattr(node.target, "__name__", str(node.target)) for node in graph.graph.nodes if "call" in node.op
        ]
        self.modules = [getattr(node.target, "__module__", "") for node in graph.graph.nodes if "call" in node.op]
        return graph

    @property
    def ours(self) -> list[str]:
        pairs = zip(self.targets, self.modules, strict=True)
        return [name for name, module in pairs if (module or "").startswith("tilesight.kernels")]


def compiled(function: Any, store: Path) -> tuple[Any, Backend, Eagerly]:
    torch.compiler.reset()
    inner = Eagerly()
    backend = Backend(store, inner=inner)
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=False), backend, inner


def written_out(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """As modeling code has an RMSNorm."""
    wide = x.to(torch.float32)
    variance = wide.pow(2).mean(-1, keepdim=True)
    return w * (wide * torch.rsqrt(variance + 1e-6)).to(x.dtype)


Draws = tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str]
FUNCTIONS: dict[str, Draws] = {
    "softmax": (lambda x: F.softmax(x + 1, dim=-1) * 2, ((3, 4, 16),), "softmax"),
    "softmax method": (lambda x: (x + 1).softmax(2) * 2, ((3, 4, 16),), "softmax"),
    "log_softmax": (lambda x: torch.log_softmax(x + 1, -1), ((3, 4, 16),), "log_softmax"),
    "rms_norm": (lambda x, w: F.rms_norm(x + 1, (16,), w, 1e-5), ((3, 4, 16), (16,)), "rms_norm"),
    "written out": (lambda x, w: written_out(x + 1, w), ((3, 4, 16), (16,)), "rms_norm"),
    "layer_norm": (lambda x, w, b: F.layer_norm(x + 1, (16,), w, b), ((12, 16), (16,), (16,)), "layer_norm"),
    "swiglu": (lambda g, u: F.silu(g + 1) * u, ((3, 4, 16), (3, 4, 16)), "swiglu"),
    "swiglu, up first": (lambda g, u: u * F.silu(g + 1), ((12, 16), (12, 16)), "swiglu"),
    "geglu": (lambda g, u: F.gelu(g + 1, approximate="tanh") * u, ((12, 16), (12, 16)), "geglu"),
}


def inputs_of(shapes: Sequence[tuple[int, ...]], is_training: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_(is_training) for shape in shapes]


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_group_that_measured_faster_is_ours(name: str, is_training: bool, tmp_path: Path) -> None:
    function, shapes, kernel = FUNCTIONS[name]
    keys = [(kernel, (12, 16)), *([(f"{kernel}_backward", (12, 16))] if is_training else [])]
    run, backend, inner = compiled(function, store_of(tmp_path / "store", keys))
    inputs = inputs_of(shapes, is_training)
    got, wanted = run(*inputs), function(*inputs)
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    assert inner.ours == [kernel]
    (choice,) = backend.chosen
    assert (choice.winner, choice.keys) == ("hand", tuple(keys)) and choice.reason.startswith("0.50 of its time")
    if is_training:
        grads = [torch.autograd.grad(each, inputs, torch.ones_like(each) * torch.arange(16)) for each in (got, wanted)]
        for pair in zip(*grads, strict=True):
            torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-4)


def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x * 2, target, ignore_index=-1)


@pytest.mark.parametrize("is_training", [False, True])
def test_a_loss(is_training: bool, tmp_path: Path) -> None:
    key = ("cross_entropy_both" if is_training else "cross_entropy", (6, 9))
    run, _, inner = compiled(loss, store_of(tmp_path / "store", [key]))
    x, target = torch.randn(6, 9, requires_grad=is_training), torch.tensor([0, -1, 8, 2, 2, -1])
    torch.testing.assert_close(run(x, target), loss(x, target))
    assert inner.ours == ["cross_entropy"]


def softmax_of(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


KEY = ("softmax", (12, 16))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"slower": [KEY]}, "1.99 of its time (1.96 to 2.02)"),
        ({"faster": [("softmax", (12, 17))]}, "not measured here"),
        ({"faster": [KEY], "dtype": "bfloat16"}, "not measured here"),
        ({"faster": [KEY], "device": "another"}, "not measured here"),
        ({"faster": [KEY], "versions": {**HERE.versions, "torch": "2.0"}}, "not measured here"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_is_slower_or_not_measured_stays_inductors(more: dict[str, Any], reason: str, tmp_path: Path) -> None:
    run, backend, inner = compiled(softmax_of, store_of(tmp_path / "store", **more))
    run(torch.randn(12, 16))
    (choice,) = backend.chosen
    assert not inner.ours and choice.winner == "inductor" and choice.reason.startswith(reason)


def test_a_later_run_decides(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", faster=[KEY])
    run, _, inner = compiled(softmax_of, store)
    run(torch.randn(12, 16))
    assert inner.ours == ["softmax"]
    run, _, inner = compiled(softmax_of, store_of(store, slower=[KEY]))
    run(torch.randn(12, 16))
    assert not inner.ours


def test_gradients_count(tmp_path: Path) -> None:
    """Twice as fast forward and half as fast backward is no faster step."""
    run, backend, inner = compiled(softmax_of, store_of(tmp_path / "store", [KEY], [("softmax_backward", (12, 16))]))
    run(torch.randn(12, 16, requires_grad=True))
    assert not inner.ours and backend.chosen[0].reason.startswith("1.00 of its time")
    run(torch.randn(12, 16))
    assert inner.ours == ["softmax"] and len(backend.chosen) == 2


OTHERS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "another axis": (lambda x: x.softmax(0), ((4, 16),)),
    "another dtype": (lambda x: F.softmax(x, -1, dtype=torch.float64), ((4, 16),)),
    "two axes": (lambda x: F.layer_norm(x, (4, 16)), ((2, 4, 16),)),
    "no weight": (lambda x: F.rms_norm(x, (16,)), ((4, 16),)),
    "broadcast": (lambda g, u: F.silu(g) * u, ((4, 16), (16,))),
    "read twice": (lambda g, u: (lambda s: s * u + s)(F.silu(g)), ((4, 16), (4, 16))),
    "a mean of another": (
        lambda x, w: w * (x * torch.rsqrt((2 * x).pow(2).mean(-1, keepdim=True) + 1e-6)),
        ((4, 16), (16,)),
    ),
    "a cube": (lambda x, w: w * (x * torch.rsqrt(x.pow(3).mean(-1, keepdim=True).abs() + 1e-6)), ((4, 16), (16,))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_looks_like_a_group_is_none(name: str, tmp_path: Path) -> None:
    function, shapes = OTHERS[name]
    run, backend, inner = compiled(function, tmp_path / "store")
    inputs = inputs_of(shapes, False)
    torch.testing.assert_close(run(*inputs), function(*inputs), equal_nan=True)
    assert not inner.ours and not backend.chosen


def test_without_a_store_it_is_inductor_and_what_is_met_is_measured_by_a_command(tmp_path: Path) -> None:
    """Compiled by Inductor itself, forward and back; noted, measured, decided."""
    store = tmp_path / "store"
    backend = Backend(store)
    torch.compiler.reset()
    x, w = inputs_of(((12, 16), (16,)), True)
    y = torch.compile(written_out, backend=backend, fullgraph=True)(x, w)
    y.sum().backward()
    torch.testing.assert_close(y, written_out(x, w))
    assert x.grad is not None
    assert str(backend).splitlines() == [
        "tilesight: 0 of 1 groups by hand-written kernels",
        "  inductor  rms_norm 12x16 + rms_norm_backward 12x16 float32: not measured here",
        f"  1 not measured here: tilesight bench --wanted --store {store}",
    ]
    noted = [(name, (12, 16), "float32") for name in ("rms_norm", "rms_norm_backward")]
    assert wanted_of(store, HERE.device) == noted
    command = [
        "bench",
        "--wanted",
        "--device",
        "cpu",
        "--store",
        str(store),
        "--samples",
        "3",
        "--providers",
        "compiled,hand",
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert wanted_of(store, HERE.device) == []
    torch.compiler.reset()
    torch.compile(written_out, backend=backend, fullgraph=True)(x, w)
    assert [choice.is_measured for choice in backend.chosen] == [False, True]
    assert CliRunner().invoke(app, command).exit_code == 2, "nothing is noted any more"


def test_ours_and_inductors_in_one_graph(tmp_path: Path) -> None:
    """Inductor compiles what is around our call, gradients too."""
    keys = [("swiglu", (12, 16)), ("swiglu_backward", (12, 16))]
    store = store_of(tmp_path / "store", keys)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch.exp(F.silu(x @ w) * (x + 1)) * 2).sum()

    torch.compiler.reset()
    backend = Backend(store)
    inputs, same = inputs_of(((12, 16), (16, 16)), True), inputs_of(((12, 16), (16, 16)), True)
    got, wanted = torch.compile(function, backend=backend, fullgraph=True)(*inputs), function(*same)
    torch.testing.assert_close(got, wanted)
    for pair in zip(torch.autograd.grad(got, inputs), torch.autograd.grad(wanted, same), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-4)
    assert (
        str(backend).splitlines()[1].startswith("  hand      swiglu 12x16 + swiglu_backward 12x16 float32: 0.50 of its")
    )


def test_a_store_that_can_not_be_written_is_told_and_stops_nothing(tmp_path: Path) -> None:
    store = tmp_path / "no folder" / "store"
    run, _, _ = compiled(softmax_of, store)
    with pytest.warns(UserWarning, match="was not noted"):
        run(torch.randn(12, 16))


def test_its_name_for_torch_is_in_the_package() -> None:
    entry = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["torch_dynamo_backends"]
    module, _, name = entry["tilesight"].partition(":")
    assert callable(getattr(import_module(module), name))
