"""Which attention kernel torch chooses is what is foretold without a GPU. Needs an NVIDIA H200."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from tests.gpu.attention_calls import CallSpec, call_specs
from tilesight.capture.inductor.attention import Attention, Backend, choose_backend
from tilesight.targets import target

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"
assert "H200" in torch.cuda.get_device_name(), f"this test needs an H200, found {torch.cuda.get_device_name()}"

CALLS = list(dict.fromkeys(call_specs()))


def chosen_by_torch(spec: CallSpec) -> Backend:
    number = torch._fused_sdp_choice(  # pyright: ignore[reportPrivateImportUsage]
        *spec.tensors("cuda"),
        attn_mask=spec.mask_tensor("cuda"),
        dropout_p=spec.dropout,
        is_causal=spec.is_causal,
        enable_gqa=spec.is_grouped,
    )
    return Backend(number)


def foretold(spec: CallSpec) -> Backend:
    mask = spec.mask_tensor("cpu")
    call = Attention(*spec.tensors("cpu"), mask, spec.dropout, spec.is_causal, None, spec.is_grouped)
    return choose_backend(call, target("h200"))


@pytest.mark.parametrize("spec", CALLS, ids=str)
def test_the_backend_is_the_one_torch_chooses(spec: CallSpec) -> None:
    assert foretold(spec) is chosen_by_torch(spec)


def test_every_backend_is_among_the_choices() -> None:
    assert set(Counter(map(chosen_by_torch, CALLS))) == set(Backend)
