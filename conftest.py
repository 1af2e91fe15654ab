"""The suite compiles into caches of its own.

Triton's and Inductor's usual caches belong to a user, not to an install: an entry written by another checkout or
another environment names that one's files (in debug lines, in libdevice's path), and a test would read those.
"""

from __future__ import annotations

import os
from pathlib import Path

CACHES = Path(__file__).parent / "build" / "test-caches"

os.environ["TRITON_CACHE_DIR"] = str(CACHES / "triton")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(CACHES / "inductor")
