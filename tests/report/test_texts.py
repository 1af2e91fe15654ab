"""Numbers as text: units, rounding at the borders, never a wrong magnitude."""

from __future__ import annotations

import math

import pytest

from tilesight.report import texts


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_200_000, "1.2 MB"),
        (2_000_000, "2.0 MB"),
        (1_234_567, "1.23 MB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (401_408, "401 kB"),
        (4_800_000_000_000, "4.8 TB"),
        (10**18, "1,000 PB"),
    ],
)
def test_bytes_are_powers_of_1000(count: int, text: str) -> None:
    assert texts.bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.0 s"), (1.234, "1.23 s"), (0.0045, "4.5 ms"), (12.3e-6, "12.3 µs"), (125.0, "125 s")],
)
def test_times_pick_their_unit(seconds: float, text: str) -> None:
    assert texts.seconds_text(seconds) == text


def test_microseconds_are_microseconds() -> None:
    assert texts.microseconds_text(3.21) == "3.21 µs"
    assert texts.microseconds_text(3210.0) == "3.21 ms"


@pytest.mark.parametrize(("error", "text"), [(0.0, "0"), (5.96e-8, "6.0e-08"), (math.nan, "nan"), (math.inf, "inf")])
def test_errors(error: float, text: str) -> None:
    assert texts.error_text(error) == text


@pytest.mark.parametrize(("share", "text"), [(0.934, "93 %"), (0.0123, "1.2 %"), (0.0, "0 %"), (1.0, "100 %")])
def test_shares(share: float, text: str) -> None:
    assert texts.share_text(share) == text


@pytest.mark.parametrize(
    ("grid", "text"), [((98, 1, 1), "(98,)"), ((4, 2, 1), "(4, 2)"), ((1, 1, 1), "(1,)"), ((2, 1, 3), "(2, 1, 3)")]
)
def test_grids_drop_trailing_ones(grid: tuple[int, ...], text: str) -> None:
    assert texts.grid_text(grid) == text


@pytest.mark.parametrize(
    ("dtype", "short"),
    [("float32", "f32"), ("torch.bfloat16", "bf16"), ("uint8", "u8"), ("int64", "i64"), ("bool", "bool")],
)
def test_dtypes(dtype: str, short: str) -> None:
    assert texts.short_dtype(dtype) == short


def test_tensor_types_take_symbolic_sizes() -> None:
    assert texts.tensor_type_text("float16", (8, "s0")) == "f16[8, s0]"
    assert texts.tensor_type_text("", ()) == ""
