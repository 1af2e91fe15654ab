"""The compiled road of what torch left behind: generated code, a TORCH_TRACE log, an Inductor cache folder."""

from __future__ import annotations

from pathlib import Path

from tilesight.capture.inductor.cache_folder import is_cache_folder
from tilesight.errors import InputError
from tilesight.roads.model import Observation, Observations
from tilesight.roads.saved_cache import observe_cache
from tilesight.roads.saved_code import observe_code_file
from tilesight.roads.saved_log import LOG_PATTERN, find_logs, observe_logs


def observe_saved(path: Path) -> Observation | Observations:
    """What a file or folder that torch wrote tells of its compiled graphs.

    Raises: InputError: when it is none of them, with what was looked for
    """
    if path.is_file() and path.suffix == ".py":
        return observe_code_file(path)
    logs = find_logs(path)
    if logs:
        return observe_logs(str(path), logs)
    if is_cache_folder(path):
        return observe_cache(path)
    raise InputError(
        "nothing that torch.compile leaves behind",
        where=str(path),
        expected=f"output_code.py, a log or folder that TORCH_TRACE wrote ({LOG_PATTERN}), an Inductor cache folder",
    )
