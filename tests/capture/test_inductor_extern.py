"""Generated code that leaves work to torch: extern calls, operators without meta kernels, undecided choices."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch

import tilesight
from tilesight.capture.inductor.execute import load_wrapper
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inputs import parse_inputs
from tilesight.capture.numerics import judge
from tilesight.targets import target


@pytest.fixture
def compile_() -> Generator[Callable[..., Any]]:
    """torch.compile as it is while the engine is on."""
    tilesight.enable(compile_for="h200")
    yield torch.compile
    tilesight.disable()
    torch._dynamo.reset()


def test_an_operator_without_a_meta_kernel_is_tried_on_the_cpu(compile_: Callable[..., Any]) -> None:
    def factor(x: torch.Tensor) -> torch.Tensor:
        return torch.geqrf(x)[0] * 2 + 1

    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(3))
    assert judge(compile_(factor)(x), [factor(x.double())]).ok


def test_constants_that_inductor_folds_are_made_on_the_cpu(compile_: Callable[..., Any]) -> None:
    """softshrink's gradient multiplies by the integer 0."""
    x = torch.linspace(-2, 2, 41).requires_grad_()
    (got,) = torch.autograd.grad(compile_(torch.nn.functional.softshrink)(x).sum(), x)
    torch.testing.assert_close(got, (x.detach().abs() > 0.5).float())


def test_complex_numbers_are_copied(compile_: Callable[..., Any]) -> None:
    x = torch.linspace(-1, 1, 12)
    torch.testing.assert_close(compile_(lambda x: (x * 2).cfloat())(x), (x * 2).to(torch.complex64))


def test_an_extern_result_lies_as_it_does_on_a_gpu(compile_: Callable[..., Any]) -> None:
    """The GPU's singular vectors are transposed in memory, and the generated kernels read them so."""
    x = torch.randn(5, 5, generator=torch.Generator().manual_seed(5))
    out = compile_(lambda x: torch.linalg.svd(x, full_matrices=False)[2].abs() + 1)(x)
    assert judge(out, [torch.linalg.svd(x.double(), full_matrices=False)[2].abs() + 1]).ok


def test_padding_a_product_is_not_decided_by_timing_it(compile_: Callable[..., Any]) -> None:
    generator = torch.Generator().manual_seed(4)
    bias, x, w = (torch.randn(3, 3, generator=generator).requires_grad_() for _ in range(3))
    out = compile_(lambda b, x, w: torch.addmm(b, x, w, alpha=0.6))(bias, x, w)
    got = torch.autograd.grad(out.sum(), (bias, x, w))
    wide = [each.detach().double().requires_grad_() for each in (bias, x, w)]
    expected = torch.autograd.grad(torch.addmm(*wide, alpha=0.6).sum(), wide)
    assert judge(got, expected).ok


def test_an_odd_product_is_captured_as_it_is() -> None:
    graph = capture(lambda x, w: torch.relu(x @ w), parse_inputs("bf16[4096,1023],bf16[1023,4095]"), target("h200"))
    (region,) = graph.regions
    assert [call.kernel for call in region.calls if not call.is_triton] == ["mm"]


def test_a_narrow_product_with_a_wide_result_has_no_narrow_rounding() -> None:
    """The CPU has no such product; bf16(1 + 2⁻⁷)² needs 15 bits, which only the wide result holds."""
    code = """
import torch
from torch._inductor.select_algorithm import extern_kernels

def call(args):
    lhs, rhs = args
    out = torch.empty(lhs.shape[:-1] + rhs.shape[-1:], dtype=torch.float32)
    product = extern_kernels.mm_dtype if lhs.dim() == 2 else extern_kernels.bmm_dtype
    product(lhs, rhs, out_dtype=torch.float32, out=out)
    return (out,)
"""
    lhs = torch.full((2, 1), 1 + 2**-7, dtype=torch.bfloat16)
    for operands in ([lhs, lhs.t()], [lhs[None], lhs.t()[None]]):
        (out,) = load_wrapper(code)(operands)
        torch.testing.assert_close(out, torch.full_like(out, (1 + 2**-7) ** 2), rtol=0, atol=0)


def test_a_constant_of_the_graph_is_found(compile_: Callable[..., Any]) -> None:
    table = [0.5, -2.0, 8.0]
    out = compile_(lambda x: x * torch.tensor(table))(torch.ones(4, 3))
    torch.testing.assert_close(out, torch.tensor(table).expand(4, 3))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("ends", [False, True])
def test_bags_of_embeddings_are_what_cuda_gives(compile_: Callable[..., Any], mode: str, ends: bool) -> None:
    """The CPU leaves the bag of each index out of what it gives for sums; CUDA does not, and the code asks for it."""
    index = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
    offsets = torch.tensor([0, 3, 3, 6, 8][: 5 if ends else 4])

    def bags(weight: torch.Tensor) -> torch.Tensor:
        found = torch.nn.functional.embedding_bag(index, weight, offsets, mode=mode, include_last_offset=ends)
        return found * 2 + 1

    weight = torch.randn(10, 3, generator=torch.Generator().manual_seed(6)).requires_grad_()
    wide = weight.detach().double().requires_grad_()
    got, wanted = compile_(bags)(weight), bags(wide)
    assert judge(got.detach(), [wanted.detach()]).ok
    (gradient,), (wide_gradient,) = torch.autograd.grad(got.sum(), weight), torch.autograd.grad(wanted.sum(), wide)
    assert judge(gradient, [wide_gradient]).ok
