"""The session that the tests of captured launches share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tilesight
from tilesight.capture.launches import EngineSession


@pytest.fixture
def engine() -> Iterator[EngineSession]:
    """Triton on the engine for the length of a test."""
    yield tilesight.enable()
    tilesight.disable()
