"""Functions near the places where plain formulas cancel; values by mpmath 1.3 with 30 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilesight.engine.rules import careful

VALUES: dict[str, tuple[Callable[[Any], Any], dict[float, float]]] = {
    "sine of pi": (
        careful.sine_of_pi,
        {0.5006865129928002: 0.9999976742281838232, 1000000.2500009537: 0.7071088997150483618, 0.5: 1.0, 3.0: 0.0},
    ),
    "cosine of pi": (
        careful.cosine_of_pi,
        {
            0.5006865129928002: -0.002156742502743196879,
            -47.500145817364924: 0.0004580987463888024717,
            31.50257965574349: 0.008104138820569632145,
            1.5: 0.0,
            -1.0: -1.0,
        },
    ),
    "ln gamma": (
        careful.log_gamma,
        {
            2.0008329517616428: 0.000352382648214641683,
            1.985479614270854: -0.0060707950411797233,
            1.00696183540089: -0.003978752382254904406,
            3.3: 0.9870985778947344041,
            0.75: 0.2032809514312953715,
            20.5: 40.83150097453079811,
            1.0: 0.0,
            2.0: 0.0,
            -3.0: math.inf,
        },
    ),
    "scaled erfc": (
        careful.scaled_erfc,
        {
            26.792622783391757: 0.02104300992476417874,
            11.9: 0.04724523248408766855,
            12.1: 0.04646960733983501168,
            1e5: 5.641895835195468078e-6,
            -2.5: 1035.814842972622908,
            0.3: 0.7345993345676551499,
        },
    ),
    "normal distribution": (
        careful.normal_distribution,
        {
            -4.999212115210616: 2.878252457312040392e-7,
            -7.25: 2.083858158672069431e-13,
            -30.0: 4.90671392714818706e-198,
            1.5: 0.933192798731141934,
            math.inf: 1.0,
            -math.inf: 0.0,
        },
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_to_a_few_units(name: str) -> None:
    function, values = VALUES[name]
    with np.errstate(all="ignore"):
        found = function(np.array(list(values)))
    np.testing.assert_allclose(found, list(values.values()), rtol=2e-15, atol=0)


def test_remainder_is_what_python_computes() -> None:
    generator = np.random.default_rng(1)
    x = np.concatenate([generator.uniform(-100, 100, 500), [5, 7, -7, 3, -0.0, 4.5, 1e308, 2, 6, 10, 1]])
    y = np.concatenate([generator.uniform(-100, 100, 500), [2, 2, 2, 1.5, 1, 3, 1.7e308, 4, 4, 4, np.inf]])
    with np.errstate(all="ignore"):
        found = careful.remainder_to_nearest(x, y)
    expected = [math.remainder(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert found.tolist() == expected
    assert np.signbit(found).tolist() == [math.copysign(1, value) < 0 for value in expected]
