"""Observations read back from the JSON that `tilesight observe --json` or `run --json` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tilesight.errors import InputError

EXPECTED = "JSON that tilesight observe --json wrote"
KEYS = ("target", "graph", "breaks", "kernels", "ledger", "not_fused", "compile")


def read_graphs(path: Path) -> list[dict[str, Any]]:
    """The compiled graphs in the file, each with the keys of `observe --json`; at least one.

    Raises: InputError: when the file can't be read, is cut off, or holds no observation
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        problem = f"no whole JSON: {error.msg} at line {error.lineno}"
        raise InputError(problem, where=str(path), expected=EXPECTED) from error
    except UnicodeDecodeError as error:
        raise InputError("not a text file", where=str(path), expected=EXPECTED) from error
    except OSError as error:
        raise InputError(str(error.strerror), where=str(path), expected="a file that can be read") from error
    graphs = data.get("regions", [data]) if isinstance(data, dict) else []
    missing = [key for key in KEYS for graph in graphs if not isinstance(graph, dict) or key not in graph]
    if missing or not graphs:
        what = f"no {missing[0]!r} in it" if missing else "no compiled graph in it"
        raise InputError(what, where=str(path), expected=EXPECTED)
    return graphs
