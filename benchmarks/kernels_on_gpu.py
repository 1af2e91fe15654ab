"""Measures the hand-written kernels beside eager, torch.compile and the installed peers, for docs/kernels.md.

    python benchmarks/kernels_on_gpu.py --seconds 480

Writes benchmarks/results/kernels_GPU.json after every case. What is there already, from the same GPU and the same
versions, is not measured again, so that several short runs make one table; --anew forgets it, with --only that of
these operators. On a machine without a GPU `--device cpu --out FILE` goes the same way with small shapes on the engine,
and its times say nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from kernel_figures import Figure, figures, small_figures
from measure import RESULTS, describe_machine
from tilesight.bench.environment import environment_of, with_state_after
from tilesight.bench.model import NOT_INSTALLED, BenchCase, Environment, Measured, described
from tilesight.bench.numbers import first_line
from tilesight.bench.operators import OPERATORS
from tilesight.bench.run import BenchOptions, measure_case, roof_of

DIGITS = 5
"""Significant digits of a sample in microseconds."""
SAME = ("gpu", "versions")
"""What must not differ for a case to be kept."""


def compact_case(case: BenchCase, session: int) -> dict[str, Any]:
    """A case with all of its samples, in microseconds."""
    return {
        "operator": case.operator,
        "shape": list(case.shape),
        "dtype": case.dtype,
        "ideal_bytes": case.ideal_bytes,
        "flops": case.flops,
        "session": session,
        "providers": {each.provider: _compact(each) for each in case.measured if not _is_missing(each)},
    }


def _is_missing(measured: Measured) -> bool:
    return measured.reason.startswith(NOT_INSTALLED)


def _compact(measured: Measured) -> dict[str, Any]:
    timing = measured.timing
    checks = {each.what: each.ok for each in measured.checks}
    found: dict[str, Any] = {"ok": measured.ok, "checks": checks, "reason": measured.reason}
    if measured.checks:
        found |= {"max_error": measured.checks[0].max_error, "tolerance": measured.checks[0].tolerance}
    if timing is not None:
        found |= {
            "method": timing.method, "kernels": timing.kernels, "peak_bytes": timing.peak_bytes,
            "device_us": _microseconds(timing.device_s), "host_us": _microseconds(timing.host_s),
        }  # fmt: skip
    return found


def _microseconds(seconds: Sequence[float]) -> list[float]:
    return [float(f"{value * 1e6:.{DIGITS}g}") for value in seconds]


def new_record(environment: Environment, arguments: Sequence[str]) -> dict[str, Any]:
    """A results file without cases."""
    machine = describe_machine()
    return {
        "benchmark": "kernels_on_gpu",
        "date": environment.date,
        "command": " ".join(["python", "benchmarks/kernels_on_gpu.py", *arguments]),
        **machine,
        "versions": {**environment.versions},
        "gpu": environment.device,
        "driver": environment.driver,
        "is_gpu": environment.is_gpu,
        "unit": "microseconds a call; device_us with a cold L2, host_us from Python to the end of the work",
        "sessions": [],
        "failed": [],
        "cases": [],
    }


def opened(path: Path, record: dict[str, Any], is_anew: bool, only: Sequence[str]) -> dict[str, Any]:
    """What the file has, where it is of the same GPU and versions; else the new record.

    Args:
        is_anew: forget what the file has, or what it has of the operators in `only`
    Raises: SystemExit: where the file is of another GPU or other versions and is not to be forgotten
    """
    if (is_anew and not only) or not path.is_file():
        return record
    old = json.loads(path.read_text())
    if is_anew:
        for kind in ("cases", "failed"):
            old[kind] = [case for case in old[kind] if case["operator"] not in only]
    other = [name for name in SAME if old[name] != record[name]]
    if other:
        raise SystemExit(f"{path} was measured with another {' and '.join(other)}: give --anew to measure all again")
    return {**old, "date": record["date"], "command": record["command"]}


def write_record(record: dict[str, Any], path: Path) -> None:
    """JSON with one case a line."""
    head = {name: value for name, value in record.items() if name != "cases"}
    cases = ",\n    ".join(json.dumps(case) for case in record["cases"])
    text = json.dumps(head, indent=2).removesuffix("\n}") + f',\n  "cases": [\n    {cases}\n  ]\n}}\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def left_to_measure(record: dict[str, Any], wanted: Sequence[Figure]) -> list[Figure]:
    done = {(case["operator"], tuple(case["shape"])) for case in (*record["cases"], *record["failed"])}
    return [each for each in wanted if each not in done]


def measured_cases(
    wanted: Sequence[Figure], options: BenchOptions, seconds: float
) -> Iterator[tuple[Figure, BenchCase | str]]:
    """One after the other, or why it can't be, while a case as long as the longest so far still fits."""
    began, longest = time.monotonic(), 0.0
    for number, (name, shape) in enumerate(wanted, 1):
        started = time.monotonic()
        if started - began + longest > seconds:
            print(f"{len(wanted) - number + 1} cases are left: run the same command again", flush=True)
            return
        case = measured_or_reason(name, shape, options)
        longest = max(longest, time.monotonic() - started)
        what = described(name, shape, options.dtype_of(OPERATORS[name]))
        print(f"{number} of {len(wanted)}: {what}: {case if isinstance(case, str) else _line(case)}", flush=True)
        yield (name, shape), case


def measured_or_reason(name: str, shape: tuple[int, ...], options: BenchOptions) -> BenchCase | str:
    """A case; where it raises (its float64 reference does not fit, say) the reason, if the device lives on.

    Raises: RuntimeError: of a device that has failed for good
    """
    try:
        return measure_case(OPERATORS[name], shape, options, compiled_beside=False)
    except Exception as error:
        if options.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        return first_line(error)


def _line(case: BenchCase) -> str:
    """`eager 2,100, hand 4,000 GB/s`"""
    texts = [f"{each.provider} {_rate(case, each)}" for each in case.measured if not _is_missing(each)]
    return f"{', '.join(texts)} {'GB/s' if case.flops is None else 'TFLOP/s'}"


def _rate(case: BenchCase, measured: Measured) -> str:
    if measured.timing is None:
        return f"– ({measured.reason})"
    tflops = case.tflop_per_s(measured.timing)
    return f"{case.gb_per_s(measured.timing):,.0f}" if tflops is None else f"{tflops:.0f}"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=480, help="start no case that would end after this")
    parser.add_argument("--samples", type=int, default=20, help="of each provider in each case")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--providers", default="", help="NAME,…; all that are installed when not given")
    parser.add_argument("--only", default="", help="OPERATOR,…; all when not given")
    parser.add_argument("--out", type=Path, help="instead of benchmarks/results/kernels_GPU.json")
    parser.add_argument("--anew", action="store_true", help="forget what the file has")
    options = parser.parse_args(arguments)
    if options.device == "cpu" and options.out is None:
        parser.error("--device cpu needs --out: times of a CPU are no result")
    return options


def main(arguments: Sequence[str]) -> None:
    given = parse(arguments)
    options = BenchOptions(given.device, given.samples, tuple(filter(None, given.providers.split(","))))
    options.check()
    environment = environment_of(given.device, "")
    short = environment.device.replace("NVIDIA", "").strip().lower().replace(" ", "_")
    path = given.out or RESULTS / f"kernels_{short}.json"
    only = tuple(filter(None, given.only.split(",")))
    record = opened(path, new_record(environment, arguments), given.anew, only)
    session = len(record["sessions"])
    wanted = left_to_measure(record, figures() if given.device == "cuda" else small_figures())
    wanted = [each for each in wanted if not only or each[0] in only]
    roof = roof_of(options)
    record["sessions"].append({"date": environment.date, "copy_gb_per_s": roof, "before": asdict(environment.before)})
    for (name, shape), case in measured_cases(wanted, options, given.seconds):
        if isinstance(case, str):
            record["failed"].append({"operator": name, "shape": list(shape), "reason": case})
        else:
            record["cases"].append(compact_case(case, session))
        record["sessions"][session]["after"] = asdict(with_state_after(environment).after)
        write_record(record, path)
    print(f"{len(record['cases'])} cases in {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
