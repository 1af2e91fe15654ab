"""The pytest plugin: a fixture whose failures are the list of findings alone.

Nothing here imports torch or Triton before a test asks for the fixture and calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tilesight.roads.model import Check


@pytest.fixture(scope="session")
def tilesight_check() -> Callable[..., Check]:
    """`tilesight.testing.check_kernel`; a failure shows what is wrong, and no traceback."""
    return _check


def _check(subject: Any, **options: Any) -> Check:
    """As `tilesight.testing.check_kernel`, with the same options."""
    from tilesight.testing.kernels import check_kernel

    try:
        return check_kernel(subject, **options)
    except AssertionError as error:
        text = str(error)
    pytest.fail(text, pytrace=False)
