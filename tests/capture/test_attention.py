"""Attention for a GPU that is not here. What an H200 chooses was asked of one: torch 2.11.0, cuDNN 9.19."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.gpu.attention_calls import CallSpec
from tilesight import observe
from tilesight.capture.inductor.attention import (
    Attention,
    Backend,
    _is_taken_apart,
    attention_as_on,
    choose_backend,
)
from tilesight.targets import target

F32, F64 = torch.float32, torch.float64


def chosen(spec: CallSpec, gpu: str = "h200") -> Backend:
    mask = spec.mask_tensor("cpu")
    call = Attention(*spec.tensors("cpu"), mask, spec.dropout, spec.is_causal, None, spec.is_grouped)
    return choose_backend(call, target(gpu))


@pytest.mark.parametrize(
    ("spec", "backend"),
    [
        (CallSpec(), Backend.CUDNN),
        (CallSpec(sizes=(256, 256)), Backend.CUDNN),
        (CallSpec(sizes=(264, 264)), Backend.EFFICIENT),
        (CallSpec(sizes=(100, 100)), Backend.FLASH),
        (CallSpec(sizes=(33, 33), mask="bool [100, 100]"), Backend.MATH),
        (CallSpec(mask="bool [100, 100]"), Backend.CUDNN),
        (CallSpec(mask="added [4, 100, 100]"), Backend.EFFICIENT),
        (CallSpec(lengths=(100, 1)), Backend.FLASH),
        (CallSpec(lengths=(0, 100)), Backend.MATH),
        (CallSpec(lengths=(7, 100), is_causal=True), Backend.CUDNN),
        (CallSpec(heads=(8, 2)), Backend.CUDNN),
        (CallSpec(F32), Backend.EFFICIENT),
        (CallSpec(F32, sizes=(33, 33)), Backend.MATH),
        (CallSpec(F32, heads=(8, 2)), Backend.MATH),
        (CallSpec(F64), Backend.MATH),
        (CallSpec(layout="3d"), Backend.MATH),
        (CallSpec(layout="strided"), Backend.MATH),
        (CallSpec(layout="heads last"), Backend.CUDNN),
    ],
    ids=str,
)
def test_what_an_h200_chooses(spec: CallSpec, backend: Backend) -> None:
    assert chosen(spec) is backend


def test_other_gpus_take_flash_first() -> None:
    assert [chosen(CallSpec(), name) for name in ("a100", "l40s", "rtx4090")] == [Backend.FLASH] * 3
    assert chosen(CallSpec(mask="bool [100, 100]"), "a100") is Backend.EFFICIENT
    assert chosen(CallSpec(sizes=(200, 200), is_trained=True), "rtx4090") is Backend.EFFICIENT
    assert chosen(CallSpec(sizes=(200, 200), is_trained=True), "a100") is Backend.FLASH


def test_switches_are_obeyed() -> None:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert chosen(CallSpec()) is Backend.MATH
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        assert chosen(CallSpec()) is Backend.FLASH


def operators(function: Any, *inputs: str, gpu: str = "h200") -> list[str]:
    found = observe(function, *inputs, target=gpu)
    return [op.target.removeprefix("aten.").removesuffix(".default") for op in found.graph.ops]


def test_a_compiled_function_has_the_target_s_operator() -> None:
    def causal(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    inputs = ("bf16[2,4,128,100]",) * 3
    assert "_scaled_dot_product_flash_attention" in operators(causal, *inputs)
    assert operators(causal, *inputs).count("constant_pad_nd") == 3
    assert "_scaled_dot_product_cudnn_attention" in operators(causal, *("bf16[2,4,128,64]",) * 3)
    assert "_scaled_dot_product_flash_attention" in operators(causal, *("bf16[2,4,128,64]",) * 3, gpu="a100")


def test_nothing_is_left_behind() -> None:
    """On the CPU attention is torch's own again."""
    q = torch.randn(1, 2, 8, 16, generator=torch.Generator().manual_seed(0))
    before = F.scaled_dot_product_attention(q, q, q)
    operators(lambda q: F.scaled_dot_product_attention(q, q, q), "bf16[1,2,8,16]")
    assert torch.equal(F.scaled_dot_product_attention(q, q, q), before)
    name = "aten::scaled_dot_product_attention"
    assert not torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutogradCUDA")


def test_a_choice_inside_another_leaves_it_as_it_is() -> None:
    """Registered twice, torch 2.11 refuses and later ones warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not _is_taken_apart()
        with attention_as_on(target("h200")):
            with attention_as_on(target("h200")):
                assert _is_taken_apart()
            assert _is_taken_apart()
        assert not _is_taken_apart()
