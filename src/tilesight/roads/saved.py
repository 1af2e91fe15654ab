"""The compiled road of what torch left behind: generated code, a TORCH_TRACE log, an Inductor cache folder."""

from __future__ import annotations

from pathlib import Path

from tilesight.errors import InputError
from tilesight.roads.model import Observation, Observations
from tilesight.roads.saved_code import observe_code_file


def observe_saved(path: Path) -> Observation | Observations:
    """What a file or folder that torch wrote tells of its compiled graphs.

    Raises: InputError: when it is none of them, with what was looked for
    """
    if path.is_file() and path.suffix == ".py":
        return observe_code_file(path)
    raise InputError("nothing that torch.compile writes", where=str(path), expected="output_code.py")
