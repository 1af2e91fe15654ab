"""Texts such as `f32[100000],i64[8]<1000` become tensors, or a message that says what is wrong."""

from __future__ import annotations

import pytest
import torch

from tilesight.capture.inputs import TensorSpec, fake_mode, fake_tensor, parse_inputs, real_inputs, spec_of
from tilesight.errors import InputError


def test_reads_shapes_dtypes_and_limits() -> None:
    assert parse_inputs("f32[100000], bf16[2,3],i64[8]<1000,f16[]") == (
        TensorSpec((100000,), torch.float32),
        TensorSpec((2, 3), torch.bfloat16),
        TensorSpec((8,), torch.int64, limit=1000),
        TensorSpec((), torch.float16),
    )


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("", "no inputs"),
        ("f32", "cannot read 'f32'"),
        ("f32[3", r"cannot read 'f32\[3'"),
        ("f32[3]f32[3]", r"cannot read 'f32\[3\]'"),
        ("f32[3],", "cannot read ','"),
        ("f32[-3]", "cannot read"),
        ("q7[3]", "unknown dtype 'q7'"),
    ],
)
def test_says_what_cannot_be_read(text: str, got: str) -> None:
    with pytest.raises(InputError, match=f"--inputs: {got}"):
        parse_inputs(text)


def test_random_integers_stay_under_the_limit_and_repeat_for_a_seed() -> None:
    first, again = (real_inputs(parse_inputs("i64[1000]<7,f32[5]"), seed=3) for _ in range(2))
    assert int(first[0].min()) >= 0 and int(first[0].max()) == 6
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_fake_tensors_say_cuda_and_keep_strides() -> None:
    transposed = spec_of(torch.zeros(4, 6).t())
    fake = fake_tensor(fake_mode(), transposed)
    assert (fake.device.type, tuple(fake.shape), fake.stride()) == ("cuda", (6, 4), (1, 6))
