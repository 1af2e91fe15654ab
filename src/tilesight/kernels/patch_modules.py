"""Modules that a hand-written kernel can stand in for, found by what they compute.

A trial runs the class' own forward on a shallow copy whose parameters and projections are small random ones on the CPU:
it needs no data of the model, tells `w` from `1 + w` and SiLU from both GELUs, and touches nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F

from tilesight.kernels.cross_entropy import cross_entropy
from tilesight.kernels.gated import geglu, swiglu
from tilesight.kernels.layer_norm import layer_norm
from tilesight.kernels.operators import FLOATS
from tilesight.kernels.patch_model import Left, Swap, is_near
from tilesight.kernels.rms_norm import rms_norm

Forward = Callable[..., Any]
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
EPS_NAMES = ("variance_epsilon", "eps", "epsilon")
ACT_NAMES = ("act_fn", "activation_fn", "act")
MARK = "tilesight_kernel"
"""On a forward of ours, the kernel's name."""
TRIAL_WIDTH = 8


def is_ours(module: torch.nn.Module) -> bool:
    """Whether a module's forward was swapped already."""
    return hasattr(vars(module).get("forward"), MARK)


def find_forward(name: str, module: torch.nn.Module) -> tuple[Swap, Forward] | Left | None:
    """The forward that can stand in for a module's; why not, where it looked as if; None for all other modules.

    Args: name: in the model
    """
    found = _known(module)
    if found is None:
        return None
    if isinstance(found, str):
        return Left(name, found)
    if "forward" in vars(module):
        return Left(name, "its forward was replaced before")
    return Swap(getattr(found, MARK), name, type(module).__name__), found


def _known(module: torch.nn.Module) -> Forward | str | None:
    kind = type(module)
    for known, forward in EXACT.items():
        if isinstance(module, known):
            return forward if kind.forward is known.forward else None
    if isinstance(module, torch.nn.CrossEntropyLoss):
        is_plain = kind.forward is torch.nn.CrossEntropyLoss.forward and module.weight is None
        return _cross_entropy_forward if is_plain else "cross_entropy has no class weights"
    if _looks_like_a_norm(module):
        return _norm_on_trial(module)
    if _looks_like_a_gated_mlp(module):
        return _mlp_on_trial(module)
    return None


def _marked(kernel: str) -> Callable[[Forward], Forward]:
    def mark(forward: Forward) -> Forward:
        setattr(forward, MARK, kernel)
        return forward

    return mark


def _the_input(inputs: tuple[Any, ...], named: dict[str, Any]) -> torch.Tensor:
    """The only argument, by place or under whatever name the class gave it."""
    (x,) = (*inputs, *named.values())
    return x


def _is_taken(x: torch.Tensor, *weights: torch.Tensor | None) -> bool:
    """Whether a kernel takes the input and gives the dtype that the module would."""
    return x.dtype in FLOATS and all(weight is None or weight.dtype == x.dtype for weight in weights)


@_marked("rms_norm")
def _rms_norm_forward(self: Any, input: torch.Tensor) -> torch.Tensor:
    if not _is_taken(input, self.weight):
        return type(self).forward(self, input)
    return rms_norm(input, self.normalized_shape, self.weight, self.eps)


@_marked("layer_norm")
def _layer_norm_forward(self: Any, input: torch.Tensor) -> torch.Tensor:
    if not _is_taken(input, self.weight, self.bias):
        return type(self).forward(self, input)
    return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


@_marked("cross_entropy")
def _cross_entropy_forward(self: Any, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Class probabilities as targets go torch's way."""
    if not _is_taken(input) or target.dtype != torch.int64:
        return type(self).forward(self, input, target)
    return cross_entropy(
        input, target, ignore_index=self.ignore_index, reduction=self.reduction, label_smoothing=self.label_smoothing
    )


EXACT: dict[type[Any], Forward] = {torch.nn.RMSNorm: _rms_norm_forward, torch.nn.LayerNorm: _layer_norm_forward}


def _looks_like_a_norm(module: torch.nn.Module) -> bool:
    """A name with Norm in it, one weight of one axis, and an eps."""
    weight = module._parameters.get("weight")
    has_one_weight = weight is not None and weight.ndim == 1 and len(module._parameters) == 1
    is_named = "norm" in type(module).__name__.lower() and not module._modules and not module._buffers
    return is_named and has_one_weight and any(hasattr(module, name) for name in EPS_NAMES)


def _norm_forward(eps_name: str, is_offset: bool) -> Forward:
    @_marked("rms_norm")
    def forward(self: Any, *inputs: Any, **named: Any) -> torch.Tensor:
        x = _the_input(inputs, named)
        if not _is_taken(x, self.weight):
            return type(self).forward(self, x)
        weight = 1 + self.weight.float() if is_offset else self.weight
        return rms_norm(x, self.weight.shape, weight, getattr(self, eps_name))

    return forward


NORM_FORWARDS = {(name, is_offset): _norm_forward(name, is_offset) for name in EPS_NAMES for is_offset in (False, True)}


def _norm_on_trial(module: torch.nn.Module) -> Forward | str:
    """The one of both norms that gives the module's numbers; rows as small as eps tell where eps stands."""
    eps_name = next(name for name in EPS_NAMES if hasattr(module, name))
    eps = getattr(module, eps_name)
    if not isinstance(eps, float):
        return "its eps is no number"
    with _quiet_numbers():
        weight, x = torch.randn(TRIAL_WIDTH), torch.randn(3, TRIAL_WIDTH)
        x[1] *= eps**0.5
        try:
            got = type(module).forward(_twin(module, weight=torch.nn.Parameter(weight)), x.clone())
        except Exception as error:
            return f"its forward can't be tried: {type(error).__name__}"
        for is_offset in (False, True):
            if is_near(got, F.rms_norm(x, (TRIAL_WIDTH,), 1 + weight if is_offset else weight, eps)):
                return NORM_FORWARDS[eps_name, is_offset]
    return "what it computes is no RMSNorm of its weight"


def _looks_like_a_gated_mlp(module: torch.nn.Module) -> bool:
    children = module._modules.keys()
    return "down_proj" in children and ({"gate_proj", "up_proj"} <= children or "gate_up_proj" in children)


def _mlp_forward(kernel: str, product: Product, is_fused: bool) -> Forward:
    def halves(self: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not is_fused:
            return self.gate_proj(x), self.up_proj(x)
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        return gate, up

    @_marked(kernel)
    def forward(self: Any, *inputs: Any, **named: Any) -> torch.Tensor:
        gate, up = halves(self, _the_input(inputs, named))
        return self.down_proj(product(gate, up) if _is_taken(gate, up) else _own_product(self, gate, up))

    return forward


def _own_product(module: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """As the module would have it, of dtypes that the kernel does not take."""
    return getattr(module, _act_name(module))(gate) * up


def _geglu_tanh(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return geglu(gate, up, "tanh")


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


PRODUCTS: tuple[tuple[str, Callable[[torch.Tensor], torch.Tensor], Product], ...] = (
    ("swiglu", F.silu, swiglu),
    ("geglu", F.gelu, geglu),
    ("geglu", _gelu_tanh, _geglu_tanh),
)
MLP_FORWARDS = {
    (act, is_fused): _mlp_forward(kernel, product, is_fused)
    for kernel, act, product in PRODUCTS
    for is_fused in (False, True)
}


def _act_name(module: torch.nn.Module) -> str:
    return next(name for name in ACT_NAMES if hasattr(module, name))


def _mlp_on_trial(module: torch.nn.Module) -> Forward | str:
    """The one whose activation gives the module's numbers, on small projections in its projections' place."""
    is_fused = "gate_up_proj" in module._modules
    if not any(hasattr(module, name) for name in ACT_NAMES):
        return "its activation is not known by its name"
    with _quiet_numbers():
        width = 2 * TRIAL_WIDTH
        gate_up, down = (torch.nn.Linear(*sizes).double() for sizes in ((TRIAL_WIDTH, 2 * width), (width, TRIAL_WIDTH)))
        apart = [torch.nn.Linear(TRIAL_WIDTH, width).double() for _ in range(2)]
        for place, each in enumerate(apart):
            each.weight.data, each.bias.data = (
                part.detach().chunk(2)[place].clone() for part in (gate_up.weight, gate_up.bias)
            )
        children = {"gate_up_proj": gate_up} if is_fused else dict(zip(("gate_proj", "up_proj"), apart, strict=True))
        x = 4 * torch.randn(5, TRIAL_WIDTH, dtype=torch.float64)
        try:
            got = type(module).forward(_twin(module, down_proj=down, **children), x)
        except Exception as error:
            return f"its forward can't be tried: {type(error).__name__}"
        gate, up = gate_up(x).chunk(2, -1)
        for _, act, _ in PRODUCTS:
            if is_near(got, down(act(gate) * up)):
                return MLP_FORWARDS[act, is_fused]
    return "what it computes is no SwiGLU or GeGLU"


def _twin(module: torch.nn.Module, **parts: torch.nn.Module | torch.nn.Parameter) -> torch.nn.Module:
    """A shallow copy with other parameters and children, whose own are left alone."""
    twin = copy.copy(module)
    vars(twin)["_parameters"], vars(twin)["_modules"] = dict(module._parameters), dict(module._modules)
    for name, part in parts.items():
        setattr(twin, name, part)
    return twin


@contextmanager
def _quiet_numbers() -> Generator[None]:
    """No gradients, the CPU, float32, and random numbers that nobody else's depend on."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]), torch.device("cpu"):
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(0)
        try:
            yield
        finally:
            torch.set_default_dtype(default)
