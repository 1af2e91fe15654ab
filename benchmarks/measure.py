"""What every benchmark records: the machine, the versions, the command, every sample and its median."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import tilesight

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "triton", "numpy")


@dataclass(frozen=True)
class Sample:
    """One fresh process: seconds from start to exit, its peak resident memory, what it printed."""

    wall_s: float
    peak_rss_bytes: int
    output: str


# A process starts its life with its parent's peak memory (Linux counts it at exec), so a small
# interpreter without torch stands between.
LAUNCHER = """
import json, os, sys, time
start = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
measured = [time.perf_counter() - start, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)]
with open(sys.argv[1], "w") as file:
    json.dump(measured, file)
"""


def run_process(command: Sequence[str], environment: Mapping[str, str]) -> Sample:
    """Runs a command to its end and measures it.

    Raises: RuntimeError: when the command fails, with the end of what it wrote
    """
    with tempfile.TemporaryDirectory() as folder:
        measured, output, errors = (Path(folder, name) for name in ("measured", "output", "errors"))
        launch = [sys.executable, "-S", "-E", "-c", LAUNCHER, str(measured), *command]
        with output.open("w") as stdout, errors.open("w") as stderr:
            subprocess.run(launch, env=environment, stdout=stdout, stderr=stderr, check=True)
        wall_s, peak_rss_bytes, exit_code = json.loads(measured.read_text())
        if exit_code != 0:
            raise RuntimeError(f"exit code {exit_code} of {' '.join(command)}: {errors.read_text()[-2000:]}")
        return Sample(wall_s, peak_rss_bytes, output.read_text())


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
        "versions": {"tilesight": tilesight.__version__, **{name: metadata.version(name) for name in PACKAGES}},
    }


def name_of_gpu() -> dict[str, str]:
    """The first NVIDIA GPU of this machine and its driver's version."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    return {"gpu": name, "driver": driver}


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
