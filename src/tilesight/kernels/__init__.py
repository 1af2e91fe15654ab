"""Hand-written kernels: functions of torch tensors, on a GPU, and on a CPU by way of the engine.

from tilesight.kernels import softmax
y = softmax(x)
"""

from __future__ import annotations

from tilesight.kernels.layer_norm import layer_norm
from tilesight.kernels.rms_norm import add_rms_norm, rms_norm
from tilesight.kernels.softmax import log_softmax, softmax

__all__ = ["add_rms_norm", "layer_norm", "log_softmax", "rms_norm", "softmax"]
