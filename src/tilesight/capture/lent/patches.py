"""Attributes put in the place of others, taken away again and put back as often as needed."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from typing import Any

_ABSENT = object()


class Patches:
    """Attributes to put on modules and classes while the `with` block lasts.

    Args:
        wanted: for each owner, the attributes by name
    """

    def __init__(self, *wanted: tuple[Any, Mapping[str, Any]]) -> None:
        self._wanted = [(owner, name, value) for owner, values in wanted for name, value in values.items()]
        self._before: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Patches:
        for owner, name, value in self._wanted:
            self._before.append((owner, name, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, value)
        return self

    def __exit__(self, *_: object) -> None:
        while self._before:
            owner, name, value = self._before.pop()
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

    @contextlib.contextmanager
    def lifted(self) -> Generator[None]:
        """While it lasts what was there before is there again."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()
