"""What every benchmark records: the machine, the versions, the command, every sample and its median."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("tilesight", "torch", "triton", "numpy")


@dataclass(frozen=True)
class Sample:
    """One fresh process: seconds from start to exit, its peak resident memory, what it printed."""

    wall_s: float
    peak_rss_bytes: int
    output: str


def run_process(command: Sequence[str], environment: Mapping[str, str]) -> Sample:
    """Runs a command to its end and measures it; the peak is the process's own, from wait4.

    Raises: RuntimeError: when the command fails, with the end of what it wrote
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode} of {' '.join(command)}: {errors.read()[-2000:]}")
        return Sample(wall_s, usage.ru_maxrss * 1024, output.read())


def with_empty_caches(folder: str) -> dict[str, str]:
    """This process's environment with Inductor's and Triton's caches moved into an empty folder."""
    return os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "inductor")),
        "TRITON_CACHE_DIR": str(Path(folder, "triton")),
    }


def summarize(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def describe_machine() -> dict[str, object]:
    """The processor, the cores this process may use, and the versions that were measured."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in PACKAGES},
    }


def write_result(name: str, arguments: Sequence[str], measured: Mapping[str, object]) -> Path:
    """Writes `results/NAME.json` and returns its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {
        "benchmark": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", f"benchmarks/{name}.py", *arguments]),
        **describe_machine(),
        **measured,
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
