"""Somebody else's kernels, imported only where they are installed: Liger, FlagGems and QuACK.

Each value imports the peer and returns a function of the operator's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

Function = Callable[..., Any]
Peers = Mapping[str, Callable[[], Function]]
EPS = 1e-6
DROPPED = 0.1
"""The probability of a dropout."""


def _liger_softmax() -> Function:
    return import_module("liger_kernel.ops.softmax").LigerSoftmaxFunction.apply


def _liger_rms_norm() -> Function:
    apply = import_module("liger_kernel.ops.rms_norm").LigerRMSNormFunction.apply
    return lambda x, weight: apply(x, weight, EPS, 0.0, "llama", False)


def _liger_add_rms_norm() -> Function:
    apply = import_module("liger_kernel.ops.fused_add_rms_norm").LigerFusedAddRMSNormFunction.apply
    return lambda x, residual, weight: apply(x, residual, weight, EPS, 0.0, "llama", False)


def _liger_layer_norm() -> Function:
    apply = import_module("liger_kernel.ops.layer_norm").LigerLayerNormFunction.apply
    return lambda x, weight, bias: apply(x, weight, bias, EPS)


def _liger_swiglu() -> Function:
    return import_module("liger_kernel.ops.swiglu").LigerSiLUMulFunction.apply


def _liger_geglu() -> Function:
    return import_module("liger_kernel.ops.geglu").LigerGELUMulFunction.apply


def _liger_rope() -> Function:
    return import_module("liger_kernel.ops.rope").LigerRopeFunction.apply


def _liger_cross_entropy() -> Function:
    apply = import_module("liger_kernel.ops.cross_entropy").LigerCrossEntropyFunction.apply
    return lambda x, target: apply(x, target, None)[0]


def _liger_linear_cross_entropy() -> Function:
    module = import_module("liger_kernel.ops.fused_linear_cross_entropy")
    apply = module.LigerFusedLinearCrossEntropyFunction.apply
    return lambda x, w, target: apply(x, w, target)[0]


def _gems(name: str) -> Function:
    """One of its ATen operators."""
    return getattr(import_module("flag_gems.ops"), name)


def _gems_along_rows(name: str) -> Function:
    function = _gems(name)
    return lambda x: function(x, -1)


def _gems_sum() -> Function:
    function = _gems("sum_dim")
    return lambda x: function(x, [-1])


def _gems_layer_norm() -> Function:
    function = _gems("layer_norm")
    return lambda x, weight, bias: function(x, list(weight.shape), weight, bias, EPS)[0]


def _gems_swiglu() -> Function:
    return import_module("flag_gems.fused.silu_and_mul").silu_and_mul


def _gems_geglu() -> Function:
    function = import_module("flag_gems.fused.gelu_and_mul").gelu_and_mul
    return lambda gate, up: function(gate, up, "tanh")


def _gems_rope() -> Function:
    function = import_module("flag_gems.fused.rotary_embedding").apply_rotary_pos_emb

    def turned(q: Any, k: Any, cos: Any, sin: Any) -> Any:
        half = cos.shape[-1] // 2
        heads = function(q.transpose(1, 2), k.transpose(1, 2), cos[:, :half], sin[:, :half])
        return [each.transpose(1, 2) for each in heads]

    return turned


def _gems_dropout() -> Function:
    function = _gems("dropout")
    return lambda x: function(x, DROPPED)[0]


def _gems_embedding() -> Function:
    function = _gems("embedding")
    return lambda index, table: function(table, index)


def _gems_cross_entropy() -> Function:
    return import_module("flag_gems.fused.cross_entropy_loss").cross_entropy_loss


def _gems_rms_norm() -> Function:
    function = import_module("flag_gems").rms_norm
    return lambda x, weight: function(x, list(weight.shape), weight, EPS)


def _quack_softmax() -> Function:
    return import_module("quack.softmax").softmax


def _quack_rms_norm() -> Function:
    function = import_module("quack.rmsnorm").rmsnorm
    return lambda x, weight: function(x, weight, eps=EPS)


def _quack_add_rms_norm() -> Function:
    function = import_module("quack.rmsnorm").rmsnorm
    return lambda x, residual, weight: function(x, weight, residual=residual, eps=EPS, prenorm=True)


def _quack_cross_entropy() -> Function:
    function = import_module("quack.cross_entropy").cross_entropy
    return lambda x, target: function(x, target).mean()


def _sdpa(backend: str, is_causal: bool) -> Function:
    """One of the kernels behind PyTorch's own attention; it refuses what that kernel does not take."""
    attention, functional = import_module("torch.nn.attention"), import_module("torch.nn.functional")
    chosen = getattr(attention.SDPBackend, backend)

    def attend(q: Any, k: Any, v: Any) -> Any:
        with attention.sdpa_kernel(chosen):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    return attend


def _flash_attn(is_causal: bool) -> Function:
    function = import_module("flash_attn").flash_attn_func

    def attend(q: Any, k: Any, v: Any) -> Any:
        return function(*(each.transpose(1, 2) for each in (q, k, v)), causal=is_causal).transpose(1, 2)

    return attend


def _flash_attn_decode() -> Function:
    function = import_module("flash_attn").flash_attn_with_kvcache

    def decode(q: Any, keys: Any, values: Any, table: Any, lengths: Any) -> Any:
        return function(q[:, None], keys, values, cache_seqlens=lengths, block_table=table).squeeze(1)

    return decode


def _gems_attention(is_causal: bool) -> Function:
    function = import_module("flag_gems.ops.attention").scaled_dot_product_attention
    return lambda q, k, v: function(q, k, v, is_causal=is_causal)


def attention_peers(is_causal: bool) -> Peers:
    """FlashAttention 2 and cuDNN by way of PyTorch, and the packages."""
    return {
        "flash": partial(_sdpa, "FLASH_ATTENTION", is_causal),
        "cudnn": partial(_sdpa, "CUDNN_ATTENTION", is_causal),
        "flash_attn": partial(_flash_attn, is_causal),
        "flag_gems": partial(_gems_attention, is_causal),
    }


SOFTMAX: Peers = {"liger": _liger_softmax, "flag_gems": partial(_gems_along_rows, "softmax"), "quack": _quack_softmax}
SOFTMAX_GRADIENT: Peers = {"liger": _liger_softmax, "quack": _quack_softmax}
LOG_SOFTMAX: Peers = {"flag_gems": partial(_gems_along_rows, "log_softmax")}
RMS_NORM: Peers = {"liger": _liger_rms_norm, "flag_gems": _gems_rms_norm, "quack": _quack_rms_norm}
ADD_RMS_NORM: Peers = {"liger": _liger_add_rms_norm, "quack": _quack_add_rms_norm}
LAYER_NORM: Peers = {"liger": _liger_layer_norm, "flag_gems": _gems_layer_norm}
LAYER_NORM_GRADIENT: Peers = {"liger": _liger_layer_norm}
ADD: Peers = {"flag_gems": partial(_gems, "add")}
SWIGLU: Peers = {"liger": _liger_swiglu, "flag_gems": _gems_swiglu}
GEGLU: Peers = {"liger": _liger_geglu, "flag_gems": _gems_geglu}
ROPE: Peers = {"liger": _liger_rope, "flag_gems": _gems_rope}
DROPOUT: Peers = {"flag_gems": _gems_dropout}
EMBEDDING: Peers = {"flag_gems": _gems_embedding}
CROSS_ENTROPY: Peers = {
    "liger": _liger_cross_entropy, "flag_gems": _gems_cross_entropy, "quack": _quack_cross_entropy,
}  # fmt: skip
LINEAR_CROSS_ENTROPY: Peers = {"liger": _liger_linear_cross_entropy}
SUM: Peers = {"flag_gems": _gems_sum}
MAX: Peers = {"flag_gems": partial(_gems_along_rows, "max_dim")}
ARGMAX: Peers = {"flag_gems": partial(_gems_along_rows, "argmax")}
CUMSUM: Peers = {"flag_gems": partial(_gems_along_rows, "cumsum")}
MATMUL: Peers = {"flag_gems": partial(_gems, "mm")}
DECODE: Peers = {"flash_attn": _flash_attn_decode}
