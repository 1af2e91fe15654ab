"""Print, as JSON, the operators of eager mode with no GPU visible: `python -m tests.gpu.offline_eager h200`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tests.gpu.corpus import CORPUS
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
