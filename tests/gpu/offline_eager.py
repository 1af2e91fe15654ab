"""Print, as JSON, the operators eager mode would launch, with no GPU visible: `python offline_eager.py h200`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from corpus import CORPUS

from tilesight.capture.inputs import parse_inputs
from tilesight.roads.observe import eager_record
from tilesight.targets import target


def main() -> None:
    chosen = target(sys.argv[1])
    ops = {
        name: [asdict(op) for op in eager_record(function, parse_inputs(text), chosen)[0]]
        for name, (function, text) in CORPUS.items()
    }
    json.dump(ops, sys.stdout)


if __name__ == "__main__":
    main()
