"""Hand-written kernels: functions of torch tensors, on a GPU, and on a CPU by way of the engine.

from tilesight.kernels import softmax
y = softmax(x)
"""

from __future__ import annotations

from tilesight.kernels.add import add, add_relu
from tilesight.kernels.attention import attention
from tilesight.kernels.cross_entropy import cross_entropy
from tilesight.kernels.cumsum import cumsum
from tilesight.kernels.decode_attention import decode_attention
from tilesight.kernels.dropout import dropout
from tilesight.kernels.embedding import embedding
from tilesight.kernels.gated import geglu, swiglu
from tilesight.kernels.layer_norm import layer_norm
from tilesight.kernels.linear_cross_entropy import linear_cross_entropy
from tilesight.kernels.matmul import matmul
from tilesight.kernels.patch import patch
from tilesight.kernels.reduction import argmax, max, sum
from tilesight.kernels.rms_norm import add_rms_norm, rms_norm
from tilesight.kernels.rope import rope
from tilesight.kernels.softmax import log_softmax, softmax
from tilesight.kernels.transpose import transpose

__all__ = [
    "add",
    "add_relu",
    "add_rms_norm",
    "argmax",
    "attention",
    "cross_entropy",
    "cumsum",
    "decode_attention",
    "dropout",
    "embedding",
    "geglu",
    "layer_norm",
    "linear_cross_entropy",
    "log_softmax",
    "matmul",
    "max",
    "patch",
    "rms_norm",
    "rope",
    "softmax",
    "sum",
    "swiglu",
    "transpose",
]
