"""Attention of Hugging Face models: a model whose configuration asks for "sdpa" is told to ask for ours.

Ours is registered under a name of its own beside "sdpa", so other models of this process keep theirs. Only models that
say of themselves that any attention may be registered for them are told so: others compare the name. What the kernel
does not take (dropout, a mask with a gradient, position biases, other dtypes, longer heads) goes the way of "sdpa",
call by call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tilesight.kernels.attention import attention
from tilesight.kernels.attention_arguments import LARGEST_HEAD
from tilesight.kernels.operators import FLOATS, needs_gradient
from tilesight.kernels.patch_model import Left, Swap, is_near

NAME = "tilesight"
THEIRS = "sdpa"
HOME = "transformers.modeling_utils"
FIELD = "_attn_implementation_internal"
"""Behind a configuration's property `_attn_implementation`, in transformers 5.24."""
MASKS = "transformers.masking_utils"
REFUSED = ("position_bias", "softcap", "output_attentions")
"""Arguments of "sdpa" that the kernel has not."""


@dataclass
class ConfigSwap:
    """A model's configuration, which asks for our attention until it is let go."""

    config: Any
    swap: Swap

    def hold(self) -> None:
        """In this configuration alone: the property's setter would tell those in it too."""
        setattr(self.config, FIELD, NAME)

    def let_go(self) -> None:
        if getattr(self.config, FIELD) == NAME:
            setattr(self.config, FIELD, THEIRS)


def attention_of(model: torch.nn.Module) -> Iterator[ConfigSwap | Left]:
    """The configurations in a model that choose an attention by name."""
    if HOME not in sys.modules or MASKS not in sys.modules:
        return
    configs: dict[int, tuple[str, Any, bool]] = {}
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        if hasattr(config, FIELD):
            is_open = bool(getattr(module, "_supports_attention_backend", False))
            configs.setdefault(id(config), (name or type(model).__name__, config, is_open))
    for name, config, open_to_others in configs.values():
        where = f"{name}.config"
        if config._attn_implementation == NAME:
            yield Left(where, "swapped already")
        elif not open_to_others:
            yield Left(where, "its attention is its own code")
        elif config._attn_implementation != THEIRS:
            yield Left(where, f"its attention is {config._attn_implementation}, not {THEIRS}")
        else:
            refused = _registered()
            yield Left(where, refused) if refused else ConfigSwap(config, Swap("attention", where, THEIRS))


def _registered() -> str:
    """Make our name known to transformers, once; why that can't be, else nothing."""
    functions, masks = sys.modules[HOME].ALL_ATTENTION_FUNCTIONS, sys.modules[MASKS].ALL_MASK_ATTENTION_FUNCTIONS
    if NAME in functions and NAME in masks:
        return ""
    original = functions[THEIRS]
    if not _is_as_expected(original):
        return "what its attention computes is no softmax(q · kᵀ) · v"
    functions.register(NAME, _attention_for(original))
    masks.register(NAME, masks[THEIRS])
    return ""


def _is_as_expected(original: Any) -> bool:
    """A trial on a few numbers: causal with grouped heads, and under a mask."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, heads, 5, 8, generator=generator) for heads in (4, 2, 2))
    module = torch.nn.Module()
    module.num_key_value_groups, module.is_causal = 2, True
    seen = torch.rand(1, 1, 5, 5, generator=generator) < 0.7
    seen[..., 0] = True
    wide = [each.repeat_interleave(2, 1) for each in (k, v)]
    for mask in (None, seen):
        allowed = torch.ones(5, 5, dtype=torch.bool).tril() if mask is None else mask
        scores = (0.3 * q @ wide[0].mT).masked_fill(~allowed, -torch.inf)
        try:
            got = original(module, q, k, v, mask, dropout=0.0, scaling=0.3)
        except Exception:
            return False
        if not is_near(got[0], (scores.softmax(-1) @ wide[1]).transpose(1, 2)):
            return False
    return True


def _attention_for(original: Any) -> Any:
    def tilesight_attention(
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **named: Any,
    ) -> tuple[torch.Tensor, None]:
        """[batch, tokens, heads, head] by `tilesight.kernels.attention`."""
        if not _is_taken(query, key, value, attention_mask, dropout, named):
            named |= {"dropout": dropout, "scaling": scaling, "is_causal": is_causal}
            return original(module, query, key, value, attention_mask, **named)
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        causal = query.shape[2] > 1 and attention_mask is None and causal
        out = attention(query, key, value, attention_mask, 0.0, causal, scaling, key.shape[1] != query.shape[1])
        return out.transpose(1, 2).contiguous(), None

    return tilesight_attention


def _is_taken(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    named: Mapping[str, Any],
) -> bool:
    """Whether the kernel takes a call as it is."""
    is_alike = query.dtype == key.dtype == value.dtype and query.dtype in FLOATS[:3]
    is_short = max(query.shape[-1], value.shape[-1]) <= LARGEST_HEAD
    is_plain = dropout == 0 and all(named.get(name) is None or named[name] is False for name in REFUSED)
    return is_alike and is_short and is_plain and not needs_gradient(mask)
