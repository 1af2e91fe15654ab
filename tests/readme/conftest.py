"""The same runner as in tests/lessons: a command that both name runs once."""

from __future__ import annotations

import pytest

from tests.lessons.commands import Runner, shared_runner


@pytest.fixture(scope="session")
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return shared_runner(request, tmp_path_factory)
