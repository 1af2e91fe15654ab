"""Files and functions stay short enough to be read in one go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.sources import PACKAGE, ROOT, functions_of, python_files

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 80
FILES = [*python_files(PACKAGE), *python_files(ROOT / "benchmarks")]

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def long_functions(source: str) -> list[str]:
    """Functions over the limit; Triton kernels may be longer."""
    return [
        f"{name}: {lines} lines"
        for name, lines, is_kernel in functions_of(source)
        if lines > MOST_LINES_OF_A_FUNCTION and not is_kernel
    ]


@every_file
def test_a_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES_OF_A_FILE


@every_file
def test_functions_are_short(path: Path) -> None:
    if PACKAGE / "kernels" in path.parents:
        return
    assert long_functions(path.read_text()) == []


def test_a_long_function_is_seen_and_a_kernel_let_through() -> None:
    body = "\n".join(f"    x = {line}" for line in range(MOST_LINES_OF_A_FUNCTION))
    assert long_functions(f"def f():\n{body}") == [f"f: {MOST_LINES_OF_A_FUNCTION + 1} lines"]
    assert long_functions(f"@triton.jit\ndef kernel():\n{body}") == []
