"""Print, as JSON, the code generated for a target with no GPU visible: `python -m tests.gpu.offline_code h200`."""

from __future__ import annotations

import json
import sys

from tests.gpu.corpus import CORPUS
from tilesight.capture.inductor.compile import compile_for_target
from tilesight.capture.inputs import fake_inputs, fake_mode, parse_inputs
from tilesight.targets import target


def main() -> None:
    chosen = target(sys.argv[1])
    codes = {
        name: [
            region.code
            for region in compile_for_target(function, fake_inputs(fake_mode(), parse_inputs(text)), chosen).regions
        ]
        for name, (function, text) in CORPUS.items()
    }
    json.dump(codes, sys.stdout)


if __name__ == "__main__":
    main()
