"""Casts against torch, ml_dtypes and Python's integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from .elementwise import BFLOAT16, Array, apply, float_edges, integer_edges
from .test_arith import assert_same, to_torch

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)


def single_bits() -> Array:
    """f32 values around every rounding decision of bf16, edges included."""
    upper = np.random.default_rng(1).integers(0, 1 << 16, 4096, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return np.concatenate([(upper[:, None] | lower).reshape(-1).view(np.float32), float_edges(np.dtype("float32"))])


def test_single_to_bfloat16_rounds_to_nearest_even() -> None:
    x = single_bits()
    assert_same(apply("arith.truncf %0 : T0 to R", x, result="bfloat16"), to_torch(x).bfloat16())


def test_single_to_half() -> None:
    x = single_bits()
    assert_same(apply("arith.truncf %0 : T0 to R", x, result="float16"), to_torch(x).half())


@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype("float16")], ids=str)
def test_every_16_bit_float_widens_exactly(dtype: Any) -> None:
    x = EVERY_HALF.view(dtype)
    assert_same(apply("arith.extf %0 : T0 to R", x, result="float32"), to_torch(x).float())


def test_double_to_bfloat16_rounds_once() -> None:
    """1 + 2⁻⁸ + 2⁻⁴⁰ is above a tie of bf16 and below one of f32: two roundings would go down."""
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40, -1 - 2.0**-8 - 2.0**-40, 1 + 2.0**-8])
    expected = [1 + 2.0**-7, 1 + 2.0**-7, -1 - 2.0**-7, 1.0]
    assert apply("arith.truncf %0 : T0 to R", x, result="bfloat16").astype(np.float64).tolist() == expected


@pytest.mark.parametrize(
    ("name", "torch_dtype"), [("float8_e4m3fn", torch.float8_e4m3fn), ("float8_e5m2", torch.float8_e5m2)]
)
def test_float8(name: str, torch_dtype: torch.dtype) -> None:
    """In range as torch rounds; out of range the largest finite value, as PTX `satfinite` gives."""
    largest = float(torch.finfo(torch_dtype).max)
    x = np.random.default_rng(2).normal(size=4096).astype(np.float32) * np.float32(largest / 8)
    x = np.concatenate([x, np.array([0, -0.0, 1e-9, largest, -largest], np.float32)])
    x = x[np.abs(x) <= largest]
    got = apply("tt.fp_to_fp %0, rounding = rtne : T0 -> R", x, result=name)
    expected = to_torch(x).to(torch_dtype).view(torch.uint8).numpy()
    assert (got.view(np.uint8) == expected).all()
    outside = np.array([np.inf, -np.inf, 2 * largest, np.nan], np.float32)
    saturated = apply("tt.fp_to_fp %0, rounding = rtne : T0 -> R", outside, result=name).astype(np.float32)
    np.testing.assert_array_equal(saturated, [largest, -largest, largest, np.nan])
    every = np.arange(256, dtype=np.uint8).view(np.dtype(getattr(ml_dtypes, name)))
    np.testing.assert_array_equal(
        apply("tt.fp_to_fp %0 : T0 -> R", every, result="float32"),
        torch.arange(256, dtype=torch.uint8).view(torch_dtype).float().numpy(),
    )


def test_toward_zero() -> None:
    x = single_bits()
    got = apply("tt.fp_to_fp %0, rounding = rtz : T0 -> R", x, result="bfloat16")
    ordered = ~np.isnan(x)
    assert (got.view(np.uint16)[ordered] == (x.view(np.uint32) >> 16).astype(np.uint16)[ordered]).all()
    half = apply(
        "tt.fp_to_fp %0, rounding = rtz : T0 -> R", np.array([1 + 2.0**-10 + 2.0**-11], "f4"), result="float16"
    )
    assert float(half[0]) == 1 + 2.0**-10


@pytest.mark.parametrize("target", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("source", ["bool", "int8", "int16", "int32"])
def test_integer_extension_and_truncation(source: str, target: str) -> None:
    a = np.array([False, True]) if source == "bool" else integer_edges(source)
    bits, wide = (1 if source == "bool" else 8 * a.itemsize), 8 * np.dtype(target).itemsize
    if wide < bits:
        got = apply("arith.trunci %0 : T0 to R", a, result=target)
        assert got.tolist() == [(x + (1 << wide - 1)) % (1 << wide) - (1 << wide - 1) for x in a.tolist()]
    elif wide > bits:
        signed = apply("arith.extsi %0 : T0 to R", a, result=target)
        unsigned = apply("arith.extui %0 : T0 to R", a, result=target)
        assert signed.tolist() == [-int(x) if source == "bool" else x for x in a.tolist()]
        assert unsigned.tolist() == [int(x) % (1 << bits) for x in a.tolist()]


def test_truncation_to_a_boolean_keeps_the_lowest_bit() -> None:
    a = np.array([0, 1, 2, 3, -1, -2], "int32")
    assert apply("arith.trunci %0 : T0 to R", a, result="bool").tolist() == [False, True, False, True, True, False]


@pytest.mark.parametrize("target", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("source", ["int8", "int32", "int64"])
def test_integer_to_float(source: str, target: str) -> None:
    a = integer_edges(source)
    torch_dtype = getattr(torch, target)
    wide = torch.from_numpy(a).to(torch.float64 if target == "float64" else torch.float32)
    assert_same(apply("arith.sitofp %0 : T0 to R", a, result=target), wide.to(torch_dtype))
    bits = 8 * a.itemsize
    expected = [float(np.float64(x % (1 << bits))) for x in a.tolist()]
    if target == "float64":
        assert apply("arith.uitofp %0 : T0 to R", a, result=target).tolist() == expected


@pytest.mark.parametrize("target", ["int8", "int32", "int64"])
@pytest.mark.parametrize("source", [np.dtype("float32"), np.dtype("float64"), BFLOAT16], ids=str)
def test_float_to_integer_truncates_and_saturates(source: Any, target: str) -> None:
    x = np.concatenate([float_edges(source), np.array([1e3, -1e3, 2.9, -2.9, 1e10, -1e10], source)])
    limits = np.iinfo(target)
    low, high = int(limits.min), int(limits.max)
    signed = apply("arith.fptosi %0 : T0 to R", x, result=target).tolist()
    unsigned = apply("arith.fptoui %0 : T0 to R", x, result=target).view(f"u{np.dtype(target).itemsize}").tolist()
    for value, one, other in zip(x.astype(np.float64).tolist(), signed, unsigned, strict=True):
        whole = 0 if value != value else value if abs(value) == float("inf") else int(value)
        assert one == min(max(whole, low), high)
        assert other == min(max(whole, 0), 2 * high + 1)


def test_bitcast() -> None:
    x = float_edges(np.dtype("float32"))
    assert (apply("tt.bitcast %0 : T0 -> R", x, result="int32") == x.view(np.int32)).all()
    assert (
        apply("arith.bitcast %0 : T0 to R", x.view(np.int32), result="float32").view(np.int32) == x.view("i4")
    ).all()
