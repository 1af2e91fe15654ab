"""All models by name, in the order of the table."""

from __future__ import annotations

from . import bert, dlrm, gpt2, llama, mamba, mixtral, qwen, resnet, t5, unet, vit, whisper
from .step import RealModel

MODELS: dict[str, RealModel] = {
    "gpt2": gpt2.MODEL,
    "bert": bert.MODEL,
    "llama": llama.MODEL,
    "qwen": qwen.MODEL,
    "mixtral": mixtral.MODEL,
    "vit": vit.MODEL,
    "resnet": resnet.MODEL,
    "whisper": whisper.MODEL,
    "t5": t5.MODEL,
    "mamba": mamba.MODEL,
    "unet": unet.MODEL,
    "dlrm": dlrm.MODEL,
}
