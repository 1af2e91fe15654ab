"""Bessel functions and the inverses of erf, against tables made with mpmath at 40 digits, and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from .elementwise import apply
from .test_libdevice import extern
from .test_math import ulps_apart

BESSEL = (
    # x, J0, J1, Y0, Y1
    (0.01, 0.9999750001562495, 0.004999937500260416, -3.005455637083646, -63.67859628206065),
    (0.5, 0.9384698072408129, 0.2422684576748739, -0.44451873350670656, -1.471472392670243),
    (1.0, 0.7651976865579666, 0.4400505857449335, 0.08825696421567696, -0.7812128213002887),
    (2.404825557695773, -6.10876525973673e-17, 0.5191474972894667, 0.509924383448479, 0.1027466824382596),
    (5.49, -0.01026095996725493, -0.34197455058432474, -0.3397014033649002, -0.020402483986797827),
    (11.5, -0.06765394811166522, -0.22837862066532347, -0.22523211169118787, 0.057942547143000823),
    (24.9, 0.0832459683530155, -0.13485569953140886, -0.13649918399676522, -0.08600255759555425),
    (25.1, 0.10827567149994945, -0.11463478413442257, -0.11676770763803694, -0.11062223322783099),
    (60.0, -0.09147180408906187, 0.046598383758166315, 0.0473589522094494, 0.09186960936986689),
    (1000.0, 0.024786686152420176, 0.004728311907089524, 0.0047159179776228135, -0.024784331292351778),
)
INVERSE_ERF = (
    (1e-12, 8.86226925452758e-13),
    (1e-05, 8.862269254759594e-06),
    (0.1, 0.08885599049425769),
    (0.5, 0.4769362762044699),
    (0.9, 1.1630871536766743),
    (0.999999, 3.458910737275499),
    (-0.3, -0.2724627147267543),
)
COLUMNS = ("j0", "j1", "y0", "y1")


@pytest.mark.parametrize("name", COLUMNS)
def test_bessel_functions_are_those_of_the_table(name: str) -> None:
    x, *columns = (np.array(column) for column in zip(*BESSEL, strict=True))
    expected = columns[COLUMNS.index(name)]
    np.testing.assert_allclose(apply(extern(f"__nv_{name}", "T0"), x), expected, rtol=0, atol=1e-14 * 64)
    narrow = apply(extern(f"__nv_{name}f", "T0"), x.astype(np.float32))
    np.testing.assert_allclose(narrow, expected, rtol=1e-5, atol=1e-4)  # x itself is rounded


def test_bessel_functions_know_their_edges() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -2.0])
    two = dict(zip(COLUMNS, apply_all(np.array([2.0])), strict=True))
    expected = {
        "j0": [1, 1, 0, 0, np.nan, two["j0"]],
        "j1": [0, 0, 0, 0, np.nan, -two["j1"]],
        "y0": [-np.inf, -np.inf, 0, np.nan, np.nan, np.nan],
        "y1": [-np.inf, -np.inf, 0, np.nan, np.nan, np.nan],
    }
    for name, values in zip(COLUMNS, apply_all(x), strict=True):
        np.testing.assert_array_equal(values, expected[name])


def apply_all(x: np.ndarray) -> list[np.ndarray]:
    results = [apply(extern(f"__nv_{name}", "T0"), x) for name in COLUMNS]
    return [each[0] if len(x) == 1 else each for each in results]


@pytest.mark.parametrize("name", ["i0", "i1"])
def test_modified_bessel_functions(name: str) -> None:
    x = np.array([0.0, 1e-30, -1e-6, 0.3, -2.5, 24.9, 25.1, -60.0, 88.0])
    oracle = {"i0": torch.special.i0, "i1": torch.special.i1}[name]
    expected = oracle(torch.from_numpy(x)).numpy()
    symbol = f"__nv_cyl_bessel_{name}"
    np.testing.assert_allclose(apply(extern(symbol, "T0"), x), expected, rtol=1e-14)
    narrow = x.astype(np.float32)
    wide = oracle(torch.from_numpy(narrow).double()).numpy()
    assert ulps_apart(apply(extern(f"{symbol}f", "T0"), narrow), wide).max() <= 1
    ends = apply(extern(symbol, "T0"), np.array([np.inf, -np.inf, np.nan]))
    np.testing.assert_array_equal(ends, [np.inf, np.inf if name == "i0" else -np.inf, np.nan])


def test_inverse_erf() -> None:
    x, expected = (np.array(column) for column in zip(*INVERSE_ERF, strict=True))
    np.testing.assert_allclose(apply(extern("__nv_erfinv", "T0"), x), expected, rtol=1e-14)
    np.testing.assert_allclose(apply(extern("__nv_erfcinv", "T0"), 1 - x), expected, rtol=2e-10, atol=1e-15)
    edges = np.array([1.0, -1.0, 0.0, 1.5, np.nan])
    np.testing.assert_array_equal(apply(extern("__nv_erfinv", "T0"), edges), [np.inf, -np.inf, 0, np.nan, np.nan])


def test_inverse_normal_distribution() -> None:
    p = np.array([1e-10, 0.025, 0.5, 0.841344746068543, 0.0, 1.0, -0.1])
    expected = torch.special.ndtri(torch.from_numpy(p)).numpy()
    np.testing.assert_allclose(apply(extern("__nv_normcdfinv", "T0"), p), expected, rtol=1e-13, atol=1e-15)


def test_norms_of_several_lanes() -> None:
    parts = [np.array([3.0, -1.0]), np.array([4.0, 2.0]), np.array([12.0, -2.0]), np.array([84.0, 4.0])]
    types = ("T0", "T1", "T2", "T3")
    np.testing.assert_allclose(apply(extern("__nv_norm3d", *types[:3]), *parts[:3]), [13, 3])
    np.testing.assert_allclose(apply(extern("__nv_norm4d", *types), *parts), [85, 5])
    np.testing.assert_allclose(apply(extern("__nv_rnorm3d", *types[:3]), *parts[:3]), [1 / 13, 1 / 3])
    np.testing.assert_allclose(apply(extern("__nv_rnorm4d", *types), *parts), [1 / 85, 1 / 5])
