"""Every operator of torch's own database through torch.compile: compiled for an H200, run on the engine.

Run `python -m benchmarks.yardsticks.inductor_operators`, with `expecttest` installed. Each operator is
compiled forward and backward in float32 and bfloat16, its generated Triton kernels run on the engine, its
results are judged against eager in float64. Processes of their own do the work, so that neither a crash
nor an endless loop stops the run. Writes benchmarks/results/inductor_operators.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import write_result
from benchmarks.yardsticks.operator_checks import FAILURES, Direction, OperatorCheck, check_operator

DTYPES = ("float32", "bfloat16")
PER_PROCESS = 60
NOTES = (
    "operators are torch.testing's op_db; of an operator's first ten samples the largest are taken",
    "right: |output − float64 reference| / (|reference| + rms) within the dtype's tolerance, or within twice "
    "eager's own error where that is more; gradients alike, for a fixed random cotangent",
    "random: eager's own values depend on the seed; shapes, types and means are compared",
    "no kernel: Inductor generates no Triton kernel, only views or extern calls, so nothing is counted",
    "refused: torch.compile itself fails on this sample, with the back end aot_eager on the CPU too",
    "matrix products, convolutions and other extern calls run in torch on the CPU; every Triton kernel runs here",
)


def operators() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def chosen_tasks(names: str, limit: int, dtypes: Sequence[str]) -> list[str]:
    """`index:dtype` of what to do, in the database's order; `limit` counts operators, 0 is all."""
    wanted = {name for name in names.split(",") if name}
    kept = [(index, each) for index, each in enumerate(operators()) if not wanted or each.name in wanted]
    kept = kept[:limit] if limit else kept
    return [f"{index}:{dtype}" for index, each in kept for dtype in dtypes if getattr(torch, dtype) in each.dtypes]


def work(tasks: Sequence[str], log: Path, samples: int, limit_s: float) -> None:
    """A process's work: one line in the log when a task begins, one when it ends."""
    torch.set_num_threads(1)
    database = operators()
    with log.open("a", encoding="utf-8") as file:
        for task in tasks:
            print(json.dumps({"begin": task}), file=file, flush=True)
            index, _, dtype = task.partition(":")
            check = check_operator(database[int(index)], getattr(torch, dtype), samples, limit_s)
            print(json.dumps({"end": task, "check": check.to_dict()}), file=file, flush=True)


def supervise(tasks: Sequence[str], log: Path, options: argparse.Namespace) -> None:
    """Work through the tasks in processes that are replaced when they die, hang or grow old."""
    log.touch()
    while waiting := [task for task in tasks if task not in read_log(log)]:
        batch = waiting[:PER_PROCESS]
        words = ["--samples", str(options.samples), "--seconds", str(options.seconds)]
        command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--worker", str(log), *words]
        process = subprocess.Popen(
            [*command, "--tasks", ",".join(batch)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        hung = wait_for(process, log, 2 * options.seconds + 60)
        begun = [record["begin"] for record in read_records(log) if "begin" in record]
        for task in begun[-1:]:
            if task not in read_log(log):
                reason = f"nothing heard for {hung:g} s" if hung else f"the process died: {process.returncode}"
                write_loss(log, task, reason)


def wait_for(process: subprocess.Popen[bytes], log: Path, patience_s: float) -> float:
    """Wait for a process that goes on writing; the seconds of silence after which it was stopped, else 0."""
    size, heard = -1, time.monotonic()
    while process.poll() is None:
        time.sleep(0.5)
        if log.stat().st_size != size:
            size, heard = log.stat().st_size, time.monotonic()
        if time.monotonic() - heard > patience_s:
            process.kill()
            process.wait()
            return patience_s
    return 0.0


def write_loss(log: Path, task: str, reason: str) -> None:
    index, _, dtype = task.partition(":")
    operator = operators()[int(index)]
    check = OperatorCheck(operator.name, operator.variant_test_name, dtype, forward=Direction("not run", reason=reason))
    with log.open("a", encoding="utf-8") as file:
        print(json.dumps({"end": task, "check": check.to_dict()}), file=file)


def read_records(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def read_log(log: Path) -> dict[str, dict[str, Any]]:
    """The finished checks by task."""
    return {record["end"]: record["check"] for record in read_records(log) if "end" in record}


def has_kernels(check: dict[str, Any]) -> bool:
    return check["generated"] > 0


def totals(checks: Sequence[dict[str, Any]]) -> dict[str, object]:
    """Counts of functions, checks and kernels, by direction, dtype and verdict."""
    compiled = [check for check in checks if has_kernels(check)]
    plain = [check for check in checks if not has_kernels(check)]
    clean = {check["name"] for check in compiled} - {check["name"] for check in compiled if not is_clean(check)}
    return {
        "functions_tried": len({check["name"] for check in checks}),
        "functions_with_kernels": len({check["name"] for check in compiled}),
        "functions_all_right": len(clean),
        "checks": len(checks),
        "checks_with_kernels": len(compiled),
        "samples": sum(check["samples"] for check in compiled),
        "kernels_generated": sum(check["generated"] for check in compiled),
        "kernels_run": sum(check[side]["launches"] for check in compiled for side in ("forward", "backward")),
        "verdicts": {
            f"{side} {dtype}": dict(
                Counter(check[side]["verdict"] for check in compiled if check["dtype"] == dtype).most_common()
            )
            for side in ("forward", "backward")
            for dtype in sorted({check["dtype"] for check in checks})
        },
        "without_kernels": dict(
            Counter("no kernel" if is_clean(check) else "not run" for check in plain).most_common()
        ),
    }


def is_clean(check: dict[str, Any]) -> bool:
    return all(check[side]["verdict"] not in FAILURES for side in ("forward", "backward"))


def failures(checks: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"{full_name(check)} {check['dtype']} {side} {check[side]['verdict']}: {check[side]['reason']}"
        for check in checks
        for side in ("forward", "backward")
        if check[side]["verdict"] in FAILURES
    ]


def full_name(check: dict[str, Any]) -> str:
    return f"{check['name']}.{check['variant']}" if check["variant"] else check["name"]


def one_line(check: dict[str, Any]) -> str:
    """`float32: forward right 1.2e-07, backward none; 1 sample, 2 kernels generated, 2 launches`."""
    sides = [
        f"{side} {part['verdict']}" + (f" {part['max_error']:.1e}" if part["verdict"] in ("right", "wrong") else "")
        for side in ("forward", "backward")
        for part in (check[side],)
    ]
    launches = check["forward"]["launches"] + check["backward"]["launches"]
    if not has_kernels(check) and is_clean(check):
        return f"{check['dtype']}: no kernel"
    return f"{check['dtype']}: {', '.join(sides)}; {check['generated']} kernels, {launches} launches"


def by_operator(checks: Sequence[dict[str, Any]]) -> dict[str, str]:
    lines: dict[str, list[str]] = {}
    for check in checks:
        lines.setdefault(full_name(check), []).append(one_line(check))
    return {name: " | ".join(parts) for name, parts in lines.items()}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=0, help="how many operators, from the first; 0 is all")
    parser.add_argument("--names", default="", help="operators by name, separated by commas")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="torch dtypes, separated by commas")
    parser.add_argument("--samples", type=int, default=2, help="samples of each operator")
    parser.add_argument("--seconds", type=float, default=120, help="time limit of one operator in one dtype")
    parser.add_argument("--processes", type=int, default=1, help="how many operators at once")
    parser.add_argument("--log", type=Path, help="where finished checks are kept; a second run goes on from there")
    parser.add_argument("--report-only", action="store_true", help="write the result of what the log has, run nothing")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tasks", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def run_all(tasks: Sequence[str], options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Every check that is done, in the order of the database."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {task: check for log in folder.glob("*.jsonl") for task, check in read_log(log).items()}
    waiting = [] if options.report_only else [task for task in tasks if task not in done]
    logs = [folder / f"{number}.jsonl" for number in range(options.processes)]
    threads = [
        threading.Thread(target=supervise, args=(waiting[number :: options.processes], log, options))
        for number, log in enumerate(logs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in logs:
        done |= read_log(log)
    return [done[task] for task in tasks if task in done]


def main(arguments: Sequence[str]) -> None:
    options = parse_arguments(arguments)
    if options.worker:
        work(options.tasks.split(","), options.worker, options.samples, options.seconds)
        return
    tasks = chosen_tasks(options.names, options.limit, options.dtypes.split(","))
    with tempfile.TemporaryDirectory() as temporary:
        checks = run_all(tasks, options, options.log or Path(temporary))
    measured = {
        "command": f"python -m benchmarks.yardsticks.inductor_operators --processes {options.processes}",
        "asked": {"names": options.names, "limit": options.limit, "dtypes": options.dtypes},
        "notes": list(NOTES),
        "not_reached": len(tasks) - len(checks),
        **totals(checks),
        "failures": failures(checks),
        "operators": by_operator(checks),
    }
    path = write_result("inductor_operators", arguments, measured)
    print(json.dumps(totals(checks), indent=2))
    print(f"written to {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
