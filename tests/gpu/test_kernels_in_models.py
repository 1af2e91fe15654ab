"""Hand-written kernels in models on a GPU: patched in, and chosen by what the bench measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.gpu.drawn import DEVICE, draw
from tilesight.bench.compile_backend import Backend
from tilesight.bench.operators import OPERATORS
from tilesight.bench.run import BenchOptions, bench
from tilesight.bench.store import save_run
from tilesight.kernels.patch import patch

SHAPE = (2048, 8192)
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
"""torch warns of itself where Inductor is first imported."""
OPTIONS = BenchOptions(samples=10, providers=("compiled", "hand"))


def block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A norm and a softmax with work around them."""
    return torch.softmax(F.rms_norm(x + 1, weight.shape, weight, 1e-6) * 2, -1) + 1


def test_what_the_bench_measured_here_decides(tmp_path: Path) -> None:
    """Ours exactly where its samples are surely below torch.compile's, and right either way, gradients too."""
    store = tmp_path / "store"
    names = ("rms_norm", "rms_norm_backward", "softmax", "softmax_backward")
    save_run(bench([(OPERATORS[name], SHAPE) for name in names], OPTIONS, heard=lambda _: None), store)
    backend = Backend(store)
    x, weight = draw(SHAPE, torch.bfloat16).requires_grad_(), draw(SHAPE[1:], torch.bfloat16, 1).requires_grad_()
    torch.compiler.reset()
    got, wanted = torch.compile(block, backend=backend, fullgraph=True, dynamic=False)(x, weight), block(x, weight)
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)
    dy = draw(SHAPE, torch.bfloat16, 7)
    pairs = zip(*(torch.autograd.grad(each, (x, weight), dy) for each in (got, wanted)), strict=True)
    for mine, theirs in pairs:
        assert float((mine - theirs).float().norm()) <= 0.03 * float(theirs.float().norm())
    assert [choice.is_measured for choice in backend.chosen] == [True, True], backend
    for choice in backend.chosen:
        assert (float(choice.reason.split()[0]) < 1) or choice.winner == "inductor", backend


def test_a_patched_model_gives_the_same_logits_loss_and_gradients() -> None:
    transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=512, intermediate_size=1376, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
        vocab_size=32000, max_position_embeddings=1024,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).to(DEVICE, torch.bfloat16)
    tokens = torch.randint(32000, (2, 700), generator=torch.Generator().manual_seed(0)).to(DEVICE)

    def numbers() -> list[torch.Tensor]:
        model.zero_grad()
        out = model(tokens, labels=tokens)
        out.loss.backward()
        return [out.logits.detach(), out.loss.detach(), *(each.grad.clone() for each in model.parameters())]

    before = numbers()
    with patch(model) as patched:
        during = numbers()
    assert {"rms_norm", "swiglu", "rope", "cross_entropy"} <= {swap.kernel for swap in patched.swaps}
    for got, wanted in zip(during, before, strict=True):
        assert float((got - wanted).float().norm()) <= 0.05 * float(wanted.float().norm())
    assert all(torch.equal(*each) for each in zip(numbers()[:2], before[:2], strict=True))


def test_torchs_own_modules_under_autocast() -> None:
    """The same dtypes as without the patch, and near numbers."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = [torch.nn.LayerNorm(512), torch.nn.RMSNorm(512), torch.nn.Linear(512, 512)]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    x = draw((300, 512), torch.float32)
    with torch.autocast(DEVICE, torch.bfloat16):
        wanted = model(x)
        with patch(model) as patched:
            got = model(x)
    assert len(patched) == 2 and got.dtype == wanted.dtype
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)
