"""Write a report whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_text_atomically(path: str | Path, text: str) -> Path:
    """The path, which now holds `text`; a failure leaves what was there before.

    The text goes to a temporary file in the same folder, which then takes the path's place. A folder
    that does not exist is made.

    Args:    path: the file; an existing one is replaced, a link's target rather than the link
    Raises:  OSError: when the folder can't be made or written
    """
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        part.chmod(_mode_of(target))
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return target


def _mode_of(target: Path) -> int:
    """The file's own permissions, or those that a new file gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
