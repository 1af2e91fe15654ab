"""How much of what torch.compile generates without a GPU is, byte for byte, what it generates on one.

Run `python -m benchmarks.offline_code` on a machine with an NVIDIA H200: the corpus in tests/gpu/functions is compiled
with the GPU hidden and on it, in the same run, paths and hashes blanked. Writes benchmarks/results/offline_code.json:
for each family how many samples are identical, and each other sample with the kind of its difference.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import name_of_gpu, write_result
from tests.gpu.generated import Outcome
from tests.gpu.generated_differences import kind_of_difference, report_of
from tests.gpu.offline_corpus import known_names, run_both


def family(name: str) -> str:
    """`norms` of `norms.layer_norm backward`."""
    return name.split(".", 1)[0]


def summary(offline: Mapping[str, Outcome], device: Mapping[str, Outcome]) -> dict[str, object]:
    """Counts by family, and the samples that differ with the kind of difference."""
    kinds = {name: kind_of_difference(offline[name], device[name]) for name in offline}
    families: dict[str, Counter[str]] = {}
    for name, kind in kinds.items():
        families.setdefault(family(name), Counter()).update(["samples", *([] if kind else ["identical"])])
    graphs = [code for side in device.values() for code in (*side.forward, *side.backward)]
    return {
        "functions": len({name.split()[0] for name in kinds}),
        "samples": len(kinds),
        "identical": sum(not kind for kind in kinds.values()),
        "graphs": len(graphs),
        "families": {name: dict(counts) for name, counts in sorted(families.items())},
        "apart": {name: kind for name, kind in kinds.items() if kind},
    }


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="processes of a side")
    parser.add_argument("--limit", type=float, default=1800, help="seconds, after which a sample counts as failed")
    parser.add_argument("--report", type=Path, help="write the differences themselves to this file")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    sides = run_both(known_names(), options.jobs, start + options.limit)
    command = f"python -m benchmarks.offline_code --jobs {options.jobs} --limit {options.limit:g}"
    measured = {
        "command": command,
        **name_of_gpu(),
        "seconds": round(time.monotonic() - start),
        "jobs": options.jobs,
        **summary(*sides),
    }
    if options.report:
        options.report.write_text(report_of(*sides) + "\n")
    path = write_result("offline_code", arguments, measured)
    print(f"{measured['identical']} of {measured['samples']} samples identical; written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
