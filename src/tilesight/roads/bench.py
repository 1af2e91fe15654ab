"""The measured road: operators by name, on this GPU or over a Ray cluster, into the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilesight.bench.environment import environment_of
from tilesight.bench.model import BenchRun
from tilesight.bench.operator_model import Operator, Shape
from tilesight.bench.operators import OPERATORS, find_operator
from tilesight.bench.providers import known_providers
from tilesight.bench.run import BenchOptions, bench, shapes_of
from tilesight.bench.store import no_longer_wanted, save_run, wanted_of
from tilesight.errors import InputError


@dataclass(frozen=True)
class Wanted:
    """What a command line asks for.

    Args:
        cases: operators and `FILE.py:CASE`; all operators when empty
        shapes: such as `8192x16384,1024x131072`; the operators' own when None
        dtype: when None float32 on a CPU, and each operator's own on a GPU, bfloat16 for most
        executor: `local` or `ray`
    """

    cases: tuple[str, ...] = ()
    shapes: str | None = None
    dtype: str | None = None
    providers: tuple[str, ...] = ()
    samples: int = 30
    device: str = "cuda"
    executor: str = "local"


def bench_named(wanted: Wanted, store: str, command: str = "", heard: Callable[[str], None] = print) -> BenchRun:
    """Measure, keep the run in the store, and return it with its number.

    Raises: InputError: for a name, shape, dtype or provider that is none, or without the device
    """
    options = BenchOptions(wanted.device, wanted.samples, wanted.providers, wanted.dtype or "")
    options.check()
    names = wanted.cases or tuple(OPERATORS)
    operators = [find_operator(name) for name in names]
    known_providers(wanted.providers, operators)
    shapes = parse_shapes(wanted.shapes)
    work = [(operator, shape) for operator in operators for shape in shapes_of(operator, options, shapes)]
    spelled = dict(zip([each.name for each in operators], names, strict=True))
    return save_run(_measure(wanted.executor, spelled, work, options, command, heard), store)


def bench_noted(wanted: Wanted, store: str, command: str = "", heard: Callable[[str], None] = print) -> BenchRun:
    """Measure what `torch.compile(backend="tilesight")` met on this device and did not know, and forget the notes.

    Raises: InputError: where nothing is noted for this device, or as `bench_named`
    """
    options = BenchOptions(wanted.device, wanted.samples, wanted.providers)
    options.check()
    device = environment_of(wanted.device, "").device
    noted = wanted_of(store, device)
    if not noted:
        raise InputError("nothing is noted", where=store, expected=f"what a compilation on {device} asked for")
    spelled = {name: name for name, _, _ in noted}
    known_providers(wanted.providers, [find_operator(name) for name in spelled])
    runs: list[BenchRun] = []
    for dtype in dict.fromkeys(dtype for _, _, dtype in noted):
        work = [(find_operator(name), shape) for name, shape, of in noted if of == dtype]
        runs.append(_measure(wanted.executor, spelled, work, replace(options, dtype=dtype), command, heard))
    run = replace(runs[0], cases=[case for each in runs for case in each.cases])
    saved = save_run(run, store)
    no_longer_wanted(store, device, noted)
    return saved


def _measure(
    executor: str,
    spelled: dict[str, str],
    work: Sequence[tuple[Operator, Shape]],
    options: BenchOptions,
    command: str,
    heard: Callable[[str], None],
) -> BenchRun:
    """On this machine or over a cluster, whose workers find an operator by the name that it was asked for by."""
    if executor == "local":
        return bench(work, options, command, heard)
    from tilesight.bench.ray_cluster import bench_on_cluster

    return bench_on_cluster([(spelled[operator.name], shape) for operator, shape in work], options, command, heard)


def parse_shapes(text: str | None) -> list[tuple[int, ...]]:
    """`8192x16384,4096` as tuples.

    Raises: InputError: for anything else
    """
    if text is None:
        return []
    found = [part.strip() for part in text.split(",")]
    for part in found:
        if not re.fullmatch(r"\d+(x\d+)*", part):
            raise InputError(f"{part!r}", where="--shapes", expected="shapes such as 8192x16384,1024x131072")
    return [tuple(map(int, part.split("x"))) for part in found]
