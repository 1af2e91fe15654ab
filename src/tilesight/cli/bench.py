"""`tilesight bench [CASES…]`: times on the GPU under the written protocol."""

from __future__ import annotations

import shlex
import sys

import click

from tilesight.cli.deliver import deliver, stdout_kept_for_json
from tilesight.cli.edge import EXIT_FINDINGS, failures_in_one_line
from tilesight.cli.options import Outputs, output_options
from tilesight.cli.progress import counting

STORE = "tilesight-bench.sqlite"


@click.command("bench", short_help="Times on the GPU under the written protocol.")
@click.argument("cases", nargs=-1, metavar="[OPERATOR|FILE.py:CASE]…")
@click.option(
    "--store", default=STORE, show_default=True, metavar="PATH", help="The SQLite file that runs are kept in."
)
@click.option("--shapes", metavar="ROWSxCOLUMNS,…", help="Instead of the operators' own shapes.")
@click.option(
    "--dtype",
    default=None,
    metavar="DTYPE",
    help="bfloat16, float16, float32 or float64; else each operator's own: float32 for add and on a CPU.",
)
@click.option("--providers", default="", metavar="NAME,…", help="Only these; else all that are installed.")
@click.option("--samples", default=30, show_default=True, help="Of each provider in each case.")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True)
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option("--compare", nargs=2, metavar="A B", help="Two stored runs: numbers in --store, FILE or FILE:NUMBER.")
@click.option("--wanted", "is_wanted", is_flag=True, help='What torch.compile(backend="tilesight") has met unmeasured.')
@click.option("--list", "is_listed", is_flag=True, help="The operators and their providers.")
@output_options
def command(
    cases: tuple[str, ...],
    store: str,
    shapes: str | None,
    dtype: str | None,
    providers: str,
    samples: int,
    device: str,
    executor: str,
    compare: tuple[str, str] | None,
    is_wanted: bool,
    is_listed: bool,
    outputs: Outputs,
) -> None:
    """Eager, torch.compile, the hand-written kernels and installed peers: numbers against float64, then times.

    Without CASES every operator is measured. Exits with 1 when a hand-written kernel's numbers are wrong, or when
    --compare finds a provider slower.
    """
    with failures_in_one_line(debug=outputs.debug, spec=" ".join(cases)):
        outputs.check()
        if is_listed:
            _list()
        elif compare:
            _compare(*compare, store, outputs)
        else:
            from tilesight.roads.bench import Wanted, bench_named, bench_noted

            wanted = Wanted(cases, shapes, dtype, tuple(filter(None, providers.split(","))), samples, device, executor)
            with stdout_kept_for_json(outputs), counting("bench") as heard:
                measure = bench_noted if is_wanted else bench_named
                run = measure(wanted, store, shlex.join(["tilesight", *sys.argv[1:]]), heard)
            deliver(run, outputs)
            click.echo(f"tilesight: run {run.number} is kept in {store}", err=True)
            if any(each.provider == "hand" and each.ok is False for case in run.cases for each in case.measured):
                raise click.exceptions.Exit(EXIT_FINDINGS)


def _compare(before: str, after: str, store: str, outputs: Outputs) -> None:
    from tilesight.bench.statistics import compare_runs
    from tilesight.bench.store import find_run

    diff = compare_runs(find_run(before, store), find_run(after, store))
    deliver(diff, outputs)
    if any(change.verdict == "slower" for change in diff.changes):
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _list() -> None:
    from tilesight.bench.operators import OPERATORS
    from tilesight.bench.providers import provider_names

    for name, operator in OPERATORS.items():
        click.echo(f"{name:24}{', '.join(provider_names(operator))}")
