"""Collects what tests/gpu wrote down of how far the engine is from a GPU.

On a machine with a GPU run `ENGINE_VS_GPU=FOLDER make gpu`, then `python benchmarks/engine_vs_gpu.py FOLDER`.
Writes benchmarks/results/engine_vs_gpu.json: for each operation and kernel the worst difference in units
in the last place of its result's dtype (for integers 0 or 1: equal or not).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from measure import name_of_gpu, write_result


def read_differences(folder: Path) -> dict[str, dict[str, float]]:
    """Group → name → the worst difference, from every file in the folder."""
    found: dict[str, dict[str, float]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            record = json.loads(line)
            group = found.setdefault(record["group"], {})
            group[record["name"]] = max(group.get(record["name"], 0.0), record["worst_ulps"])
    return {group: dict(sorted(names.items())) for group, names in sorted(found.items())}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where tests/gpu wrote its differences")
    differences = read_differences(parser.parse_args(arguments).folder)
    measured = {
        **name_of_gpu(),
        "unit": "units in the last place of the result's dtype, null where one side is not finite; "
        "for integers 1 where any lane differs",
        "compared": {group: len(names) for group, names in differences.items()},
        "equal": {group: sum(ulps == 0 for ulps in names.values()) for group, names in differences.items()},
        "worst_ulps": {
            group: {name: ulps if math.isfinite(ulps) else None for name, ulps in names.items()}
            for group, names in differences.items()
        },
    }
    path = write_result("engine_vs_gpu", arguments, measured)
    print(f"{sum(map(len, differences.values()))} compared; written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
