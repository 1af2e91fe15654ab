"""`patch`: small models with random weights before, during and after; hand-written kernels run on the engine."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.kernels_library.against_float64 import dynamo_instantiates_functions
from tilesight.kernels import attention
from tilesight.kernels.patch import Patch, patch

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 97}
GROUPED = {**SIZES, "intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 64}
MODELS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "Llama": (GROUPED, {"rms_norm": 5, "swiglu": 2, "rope": 1, "cross_entropy": 1, "attention": 1}),
    "Qwen3": ({**GROUPED, "head_dim": 16}, {"rms_norm": 9, "swiglu": 2, "rope": 1, "cross_entropy": 1, "attention": 1}),
    "Gemma": ({**GROUPED, "head_dim": 16}, {"rms_norm": 5, "geglu": 2, "rope": 1, "cross_entropy": 1, "attention": 1}),
    "Phi3": (
        {**GROUPED, "pad_token_id": 0},
        {"rms_norm": 5, "swiglu": 2, "rope": 1, "cross_entropy": 1, "attention": 1},
    ),
    "Cohere": (GROUPED, {"swiglu": 2, "rope": 1, "cross_entropy": 1, "attention": 1}),
    "Falcon": (
        {**SIZES, "max_position_embeddings": 64},
        {"layer_norm": 3, "rope": 1, "cross_entropy": 1},
    ),
    "GPT2": (
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 97, "n_positions": 64},
        {"layer_norm": 5, "cross_entropy": 1, "attention": 1},
    ),
}
TOKENS = torch.randint(97, (2, 11), generator=torch.Generator().manual_seed(0))


def model_of(name: str, **more: Any) -> nn.Module:
    """The family's causal language model, its norms' weights random too."""
    transformers: Any = import_module("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**MODELS[name][0], **more)
    model = getattr(transformers, "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, 0.5, 0.5)
    return model


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def numbers(model: nn.Module) -> list[torch.Tensor]:
    """Logits, loss, and every parameter's gradient."""
    model.zero_grad()
    out = model(TOKENS, labels=TOKENS)
    out.loss.backward()
    return [out.logits.detach(), out.loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def state_of(model: nn.Module) -> Iterator[Any]:
    """Everything that a module holds, by identity."""
    for module in model.modules():
        yield {key: id(value) for key, value in vars(module).items()}


def kernels_of(patched: Patch) -> dict[str, int]:
    return dict(Counter(swap.kernel for swap in patched.swaps))


def test_numbers_stay_and_undo_restores_exactly(name: str) -> None:
    model = model_of(name)
    module: Any = import_module(type(model).__module__)
    functions = (
        getattr(module, "apply_rotary_pos_emb", None),
        import_module("transformers.loss.loss_utils").fixed_cross_entropy,
    )
    before, state = numbers(model), list(state_of(model))
    patched = patch(model)
    assert kernels_of(patched) == MODELS[name][1]
    during = numbers(model)
    assert len(during) == len(before) == 2 + len(list(model.parameters()))
    for got, wanted in zip(during, before, strict=True):
        torch.testing.assert_close(got, wanted, rtol=2e-4, atol=2e-5)
    assert any(not torch.equal(*each) for each in zip(during, before, strict=True)), "the kernels round otherwise"
    patched.undo()
    assert list(state_of(model)) == state
    assert functions == (
        getattr(module, "apply_rotary_pos_emb", None), import_module("transformers.loss.loss_utils").fixed_cross_entropy
    )  # fmt: skip
    assert all(torch.equal(*each) for each in zip(numbers(model), before, strict=True))
    patched.undo()


def test_in_bfloat16() -> None:
    model = model_of("Llama").bfloat16()
    before = numbers(model)
    with patch(model):
        during = numbers(model)
    for got, wanted in zip(during, before, strict=True):
        assert got.dtype == wanted.dtype
        assert float((got - wanted).float().norm()) <= 0.03 * float(wanted.float().norm())


def test_padding_and_generation(name: str) -> None:
    """Attention under a mask, and one token at a time behind a cache."""
    model: Any = model_of(name)
    seen = torch.ones_like(TOKENS)
    seen[0, :4] = 0

    def tokens_and_logits() -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            made = model.generate(TOKENS, attention_mask=seen, max_new_tokens=4, do_sample=False, pad_token_id=0)
            return made, model(TOKENS, attention_mask=seen).logits[seen.bool()]

    before = tokens_and_logits()
    with patch(model):
        during = tokens_and_logits()
    assert torch.equal(during[0], before[0])
    torch.testing.assert_close(during[1], before[1], rtol=2e-4, atol=2e-5)


def test_attention_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a layer; grouped heads and the causal order are the kernel's."""
    module: Any = import_module("tilesight.kernels.patch_attention")
    calls: list[tuple[Any, ...]] = []

    def counted(*args: Any) -> torch.Tensor:
        calls.append(args)
        return attention(*args)

    monkeypatch.setattr(module, "attention", counted)
    model = model_of("Llama")
    with patch(model):
        model(TOKENS).logits.sum().backward()
    assert [(args[5], args[7]) for args in calls] == [(True, True)] * 2


def test_another_attention_is_left() -> None:
    model = model_of("Llama", attn_implementation="eager")
    with patch(model) as patched:
        assert [(each.where, each.reason) for each in patched.left] == [
            ("LlamaForCausalLM.config", "its attention is eager, not sdpa")
        ]


def test_attention_of_a_models_own_code_is_left() -> None:
    """Falcon compares the name that it asks for."""
    with patch(model_of("Falcon")) as patched:
        assert ("FalconForCausalLM.config", "its attention is its own code") in [
            (each.where, each.reason) for each in patched.left
        ]


def test_what_was_swapped_is_told() -> None:
    model = model_of("Llama")
    with patch(model) as patched:
        assert str(patched).splitlines() == [
            "tilesight.kernels: 10 swapped in LlamaForCausalLM",
            "  attention                  1  sdpa: LlamaForCausalLM.config",
            "  cross_entropy              1  fixed_cross_entropy: transformers.loss.loss_utils.fixed_cross_entropy"
            " (for every model of that module in this process)",
            "  rms_norm                   5  LlamaRMSNorm: model.layers.0.input_layernorm,"
            " model.layers.0.post_attention_layernorm, model.layers.1.input_layernorm and 2 more",
            "  rope                       1  apply_rotary_pos_emb:"
            " transformers.models.llama.modeling_llama.apply_rotary_pos_emb"
            " (for every model of that module in this process)",
            "  swiglu                     2  LlamaMLP: model.layers.0.mlp, model.layers.1.mlp",
        ]
    assert str(patched).startswith("tilesight.kernels: 10 swapped in LlamaForCausalLM, undone\n")


def test_a_second_patch_is_harmless() -> None:
    model = model_of("Qwen3")
    state = list(state_of(model))
    first = patch(model)
    during, wanted = list(state_of(model)), numbers(model)
    second = patch(model)
    assert not second.swaps and {each.reason for each in second.left} == {"swapped already"}
    assert str(second).startswith("tilesight.kernels: nothing to swap in Qwen3ForCausalLM\n")
    second.undo()
    assert list(state_of(model)) == during and torch.equal(numbers(model)[0], wanted[0])
    first.undo()
    assert list(state_of(model)) == state


def test_a_function_stays_until_the_last_patch_lets_go() -> None:
    one, other = model_of("Llama"), model_of("Llama")
    module: Any = import_module(type(one).__module__)
    original = module.apply_rotary_pos_emb
    first, second = patch(one), patch(other)
    assert kernels_of(second) == {"rms_norm": 5, "swiglu": 2, "attention": 1}
    first.undo()
    assert module.apply_rotary_pos_emb is not original
    second.undo()
    assert module.apply_rotary_pos_emb is original


def test_a_model_with_nothing_to_swap() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.BatchNorm1d(4))
    patched = patch(model)
    assert not patched.swaps and not patched.left
    assert str(patched) == "tilesight.kernels: nothing to swap in Sequential"
    with pytest.raises(TypeError, match=r"takes a torch\.nn\.Module, not function"):
        patch(model_of)  # pyright: ignore[reportArgumentType]


def test_torchs_own_modules() -> None:
    torch.manual_seed(0)
    model = nn.ModuleList(
        [nn.RMSNorm(24), nn.RMSNorm([4, 6], eps=0.1), nn.LayerNorm(24), nn.LayerNorm([4, 6], bias=False),
         nn.LayerNorm(24, elementwise_affine=False)]
    )  # fmt: skip
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(5, 4, 6)
    inputs = [x.flatten(1) if each.normalized_shape == (24,) else x for each in model]
    wanted = [norm(each) for norm, each in zip(model, inputs, strict=True)]
    with patch(model) as patched:
        assert kernels_of(patched) == {"rms_norm": 2, "layer_norm": 3}
        for norm, each, right in zip(model, inputs, wanted, strict=True):
            torch.testing.assert_close(norm(each), right)


def test_a_loss_with_all_that_it_can_have() -> None:
    torch.manual_seed(0)
    logits, target = torch.randn(6, 9), torch.tensor([0, 8, -1, 3, -1, 4])
    loss = nn.CrossEntropyLoss(ignore_index=-1, reduction="sum", label_smoothing=0.2)
    shares = torch.softmax(torch.randn(6, 9), 1)
    wanted = loss(logits, target), loss(logits, shares)
    with patch(loss) as patched:
        assert kernels_of(patched) == {"cross_entropy": 1}
        torch.testing.assert_close(loss(logits, target), wanted[0])
        assert torch.equal(loss(logits, shares), wanted[1]), "probabilities go torch's way"
    weighted = patch(nn.CrossEntropyLoss(weight=torch.ones(9)))
    assert [each.reason for each in weighted.left] == ["cross_entropy has no class weights"]


class HalfNorm(nn.Module):
    """Named like one, and none."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16))
        self.eps = 1e-6

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps) / 2


class OutsideNorm(HalfNorm):
    """eps beside the root instead of under it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x / (x.square().mean(-1, keepdim=True).sqrt() + self.eps)


class CubedMLP(nn.Module):
    """Built like a gated MLP, with another activation."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)
        self.act_fn = torch.tanh

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class SwappedMLP(CubedMLP):
    """SiLU of the other half."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.up_proj(x)) * self.gate_proj(x))


class LateNorm(nn.LayerNorm):
    """A subclass that computes something else."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) + 1


def test_what_only_looks_known_is_left_with_the_reason() -> None:
    taken = nn.LayerNorm(8)
    taken.forward = lambda input: input
    model = nn.Sequential(HalfNorm(), OutsideNorm(), CubedMLP(), SwappedMLP(), LateNorm(8), taken)
    patched = patch(model)
    assert not patched.swaps
    assert [(each.where, each.reason) for each in patched.left] == [
        ("0", "what it computes is no RMSNorm of its weight"),
        ("1", "what it computes is no RMSNorm of its weight"),
        ("2", "what it computes is no SwiGLU or GeGLU"),
        ("3", "what it computes is no SwiGLU or GeGLU"),
        ("5", "its forward was replaced before"),
    ]


def test_a_trial_touches_nothing() -> None:
    """Neither the random numbers that others draw, nor weights, which may not even be there."""
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    with torch.device("meta"):
        model = model_of("Llama")
    torch.manual_seed(5)
    with patch(model) as patched:
        assert kernels_of(patched) == MODELS["Llama"][1]
    assert torch.equal(torch.rand(3), wanted)
    assert all(parameter.is_meta for parameter in model.parameters())


def test_inputs_of_another_dtype_go_the_modules_own_way() -> None:
    """bf16 rows into a float32 norm: the module's result is float32."""
    norm = model_of("Llama").get_submodule("model.norm")
    x = torch.randn(3, 32).bfloat16()
    wanted = norm(x)
    with patch(norm):
        got = norm(x)
    assert got.dtype == wanted.dtype == torch.float32 and torch.equal(got, wanted)


def test_a_forward_that_was_replaced_since_is_left_and_told() -> None:
    model = nn.Sequential(nn.LayerNorm(8), nn.LayerNorm(8))
    patched = patch(model)
    theirs: Any = lambda input: input  # noqa: E731
    model[0].forward = theirs
    with pytest.raises(RuntimeError, match="replaced since it was patched, and is left so: 0"):
        patched.undo()
    assert vars(model[0])["forward"] is theirs and "forward" not in vars(model[1])


def test_a_copy_of_a_patched_model_has_its_own_weights() -> None:
    model = nn.Sequential(nn.LayerNorm(8))
    with patch(model):
        twin = copy.deepcopy(model)
        with torch.no_grad():
            twin.get_parameter("0.bias").add_(1)
        x = torch.randn(2, 8)
        torch.testing.assert_close(twin(x), model(x) + 1)
        assert list(twin.state_dict()) == ["0.weight", "0.bias"]


@dynamo_instantiates_functions
def test_a_patched_model_compiles_whole() -> None:
    model = model_of("Llama", use_cache=False)
    with torch.no_grad():
        wanted = model(TOKENS).logits
        with patch(model):
            torch.compiler.reset()
            got = torch.compile(model, fullgraph=True, backend="aot_eager")(TOKENS).logits
    torch.testing.assert_close(got, wanted, rtol=2e-4, atol=2e-5)
