"""Tell what torch left behind (generated code, a log, a cache folder) from FILE.py:NAME, without importing torch."""

from __future__ import annotations

from pathlib import Path

MARKS = ("async_compile", "AsyncCompile", "assert_size_stride", "extern_kernels")
READ_CHARACTERS = 200_000


def is_saved_work(spec: str) -> bool:
    """Whether `spec` is the path of a folder, of a log or of a Python file that bears Inductor's marks."""
    path = Path(spec)
    if path.is_dir():
        return True
    if not path.is_file():
        return False
    return path.suffix != ".py" or path.name == "output_code.py" or _bears_marks(path)


def _bears_marks(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(READ_CHARACTERS)
    return any(mark in text for mark in MARKS)
