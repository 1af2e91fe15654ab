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


def _liger_softmax() -> Function:
    return import_module("liger_kernel.ops.softmax").LigerSoftmaxFunction.apply


def _liger_rms_norm() -> Function:
    apply = import_module("liger_kernel.ops.rms_norm").LigerRMSNormFunction.apply
    return lambda x, weight: apply(x, weight, EPS, 0.0, "llama", False)


def _liger_add_rms_norm() -> Function:
    apply = import_module("liger_kernel.ops.fused_add_rms_norm").LigerFusedAddRMSNormFunction.apply
    return lambda x, residual, weight: apply(x, residual, weight, EPS, 0.0, "llama", False)


def _gems_softmax(name: str) -> Function:
    function = getattr(import_module("flag_gems.ops"), name)
    return lambda x: function(x, -1)


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


SOFTMAX: Peers = {"liger": _liger_softmax, "flag_gems": partial(_gems_softmax, "softmax"), "quack": _quack_softmax}
LOG_SOFTMAX: Peers = {"flag_gems": partial(_gems_softmax, "log_softmax")}
RMS_NORM: Peers = {"liger": _liger_rms_norm, "flag_gems": _gems_rms_norm, "quack": _quack_rms_norm}
ADD_RMS_NORM: Peers = {"liger": _liger_add_rms_norm, "quack": _quack_add_rms_norm}
