"""The encoder of Whisper small: two convolutions over 30 s of log-mel frames, twelve blocks on 1,500 positions."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .step import RealModel

PUBLISHED: dict[str, Any] = {
    "d_model": 768,
    "encoder_layers": 12,
    "encoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "num_mel_bins": 80,
}


def build(**changes: Any) -> nn.Module:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return WhisperEncoder(WhisperConfig(**{**PUBLISHED, **changes}))


def predict(model: nn.Module, mels: Tensor) -> Tensor:
    """Hidden states [batch, 1500, width]."""
    made: Any = model(mels)
    return made.last_hidden_state


def loss(model: nn.Module, mels: Tensor) -> Tensor:
    """The mean square of the hidden states: an encoder alone has no loss of its own."""
    return predict(model, mels).float().square().mean()


MODEL = RealModel(
    title="Whisper small, encoder",
    origin="transformers WhisperEncoder",
    batch="8 x 3,000 frames (30 s)",
    inputs="bf16[8,80,3000]",
    parameters=88_154_112,
    build=build,
    predict=predict,
    loss=loss,
    small=(
        {
            "d_model": 64,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 128,
            "max_source_positions": 32,
        },
        "bf16[2,80,64]",
    ),
)
