"""Steps in plain torch between generated kernels: what they read and give."""

from __future__ import annotations

import ast

import pytest

from tilesight.capture.inductor.tensor_steps import TensorStep, parse_optional_step

RUN = "workspace_0[1 * (512) * (768) : (1 + 1) * (512) * (768)]"
SIZES = {"s0": 512}


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (f"{RUN}.view(512, 768).sum(dim=0).view([768])", (768,)),
        (f"{RUN}.view(512, 768).sum(dim=0)", (768,)),  # torch 2.11
        (f"{RUN}.view(s0, 768).sum(dim=1)", (512,)),
        (f"{RUN}.view(2, 256, 768).sum(dim=1)", (2, 768)),
        (f"{RUN}.sum(dim=0).view(4, 192)", (4, 192)),
        (f"{RUN}.sum(dim=0)", None),
        (f"{RUN}.view(512, 768).sum(dim=(0, 1))", None),
        (f"{RUN}.view(512, s1).sum(dim=0)", None),
    ],
)
def test_a_sum_of_a_workspace(text: str, shape: tuple[int, ...] | None) -> None:
    step = parse_optional_step(ast.parse(text, mode="eval").body, SIZES)
    assert step == TensorStep("sum", "workspace_0", 512 * 768, shape)


@pytest.mark.parametrize("text", [f"{RUN}.view(512, 768)", "buf0.sum(dim=0)", f"{RUN}.abs().sum(dim=0)", "f(buf0)"])
def test_other_forms_are_no_step(text: str) -> None:
    assert parse_optional_step(ast.parse(text, mode="eval").body, SIZES) is None
