"""Cases spread over the GPUs of a Ray cluster, one case a GPU at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from tilesight.bench.environment import environment_of, with_state_after
from tilesight.bench.model import BenchCase, BenchRun, Environment, described
from tilesight.bench.operator_model import Shape
from tilesight.bench.operators import find_operator
from tilesight.bench.run import CPU_NOTE, BenchOptions, Heard, measure_case, roof_of
from tilesight.errors import InputError


def bench_on_cluster(
    work: Sequence[tuple[str, Shape]], options: BenchOptions, command: str = "", heard: Heard = print
) -> BenchRun:
    """As `run.bench`, each case on one of the cluster's GPUs; on a cluster without GPUs on its CPU workers.

    The roof is measured on each worker beside its case, and the run's is the median of them.

    Args:   work: operator's name and shape; workers must be able to read a user's FILE.py:CASE
    Raises: InputError: where Ray is missing
    """
    ray = _ray()
    began_here = not ray.is_initialized()
    if began_here:
        ray.init(log_to_driver=False, include_dashboard=False)
    try:
        resources = {"num_gpus": 1} if options.device == "cuda" else {"num_cpus": 1}
        remote = ray.remote(**resources)(_case_on_worker)
        waiting = {remote.remote(name, shape, options): place for place, (name, shape) in enumerate(work)}
        done = _collect(ray, waiting, work, heard)
    finally:
        if began_here:
            ray.shutdown()
    return _gathered([done[place] for place in range(len(work))], options, command)


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise InputError(
            "Ray is not installed", where="--executor ray", next_step="pip install 'tilesight[ray]'"
        ) from error


def _case_on_worker(name: str, shape: Shape, options: BenchOptions) -> tuple[BenchCase, Environment]:
    """Runs on a worker: (the case, the worker's environment with the roof there)."""
    options.check()
    environment = replace(environment_of(options.device, ""), copy_gb_per_s=roof_of(options))
    return measure_case(find_operator(name), shape, options), with_state_after(environment)


def _collect(ray: Any, waiting: dict[Any, int], work: Sequence[tuple[str, Shape]], heard: Heard) -> dict[int, Any]:
    done: dict[int, Any] = {}
    while waiting:
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        place = waiting.pop(ready)
        done[place] = ray.get(ready)
        name, shape = work[place]
        heard(f"{len(done)} of {len(work)}: {described(name, shape, done[place][0].dtype)}")
    return done


def _gathered(done: Sequence[tuple[BenchCase, Environment]], options: BenchOptions, command: str) -> BenchRun:
    environments = [environment for _, environment in done]
    roofs = sorted(each.copy_gb_per_s for each in environments if each.copy_gb_per_s is not None)
    devices = sorted({each.device for each in environments})
    environment = replace(
        environments[0],
        command=command,
        device=", ".join(devices),
        copy_gb_per_s=roofs[len(roofs) // 2] if roofs else None,
        after=environments[-1].after,
    )
    notes = (f"Measured on {len(done)} workers' turns of a Ray cluster ({', '.join(devices)}).",)
    return BenchRun(
        environment, [case for case, _ in done], notes=notes if options.device == "cuda" else (*notes, CPU_NOTE)
    )
