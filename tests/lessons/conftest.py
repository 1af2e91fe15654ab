"""The runner of the pages' commands."""

from __future__ import annotations

import pytest

from tests.lessons.commands import Runner, shared_runner


@pytest.fixture(scope="session")
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return shared_runner(request, tmp_path_factory)
