"""`tilesight observe FILE.py:NAME`: the compiled road."""

from __future__ import annotations

from pathlib import Path

import click

from tilesight.cli.deliver import deliver, stdout_kept_for_json
from tilesight.cli.edge import EXIT_BAD_INPUT, EXIT_FINDINGS, complain, failures_in_one_line
from tilesight.cli.export import check_folder, export_option, exported
from tilesight.cli.options import Outputs, output_options, target_option
from tilesight.cli.perfetto import check_perfetto, deliver_perfetto, perfetto_option
from tilesight.cli.progress import working
from tilesight.cli.saved_work import is_saved_work


@click.command("observe", short_help="The compiled road of a function or module.")
@click.argument("spec", metavar="FILE.py:NAME|MODULE:NAME|PATH", required=False)
@click.option("--inputs", metavar="TYPES", help='Such as "f32[100000],f32[100000]"; else example_inputs() is called.')
@target_option
@click.option("--mode", metavar="MODE", help="torch.compile's mode, such as max-autotune.")
@click.option("--backward", is_flag=True, help="The backward graphs too, in training mode.")
@click.option("--dynamic", is_flag=True, help="Compile with dynamic shapes.")
@export_option
@perfetto_option
@click.option("--diff", nargs=2, metavar="A.json B.json", help="Two saved --json files against each other, alone.")
@click.option("--fail-on-more", is_flag=True, help="With --diff: exit with 1 where B moves more bytes or calls more.")
@output_options
def command(
    spec: str | None,
    inputs: str | None,
    target: str,
    mode: str | None,
    backward: bool,
    dynamic: bool,
    export: str | None,
    perfetto: str | None,
    diff: tuple[str, str] | None,
    fail_on_more: bool,
    outputs: Outputs,
) -> None:
    """What torch.compile makes of NAME, a function or an nn.Module, for a GPU that need not be here.

    Shows the FX and ATen graphs, the generated kernels with their three parts marked, the bytes, what
    was not fused and why, and the compile times.

    PATH is what torch.compile left behind, here or elsewhere: an output_code.py, a log or folder that
    TORCH_TRACE wrote, or an Inductor cache folder. It is read, not run.

    Exits with 2, after the report, where a part was not compiled.

    --diff tells what differs between two files that --json wrote: kernels with their sources, graphs,
    breaks, fusions, bytes, times. With --fail-on-more it exits with 1 where B.json has more compiled bytes, or more
    kernels and library calls, than A.json, so that CI can stop.
    """
    if spec is None and diff is None:
        raise click.UsageError("Missing argument 'FILE.py:NAME|MODULE:NAME|PATH'.")
    if spec is not None and diff is not None:
        raise click.UsageError("--diff A.json B.json stands alone.")
    if fail_on_more and diff is None:
        raise click.UsageError("--fail-on-more goes with --diff A.json B.json.")
    with failures_in_one_line(debug=outputs.debug, spec=spec or ""):
        outputs.check()
        if diff:
            _diff(*diff, outputs, fails_on_more=fail_on_more)
            return
        assert spec is not None
        check_folder(export)
        check_perfetto(perfetto)
        if is_saved_work(spec):
            with stdout_kept_for_json(outputs), working(f"reading {spec}"):
                from tilesight.roads.saved import observe_saved

                saved = exported(observe_saved(Path(spec)), export)
            deliver(saved, outputs)
            deliver_perfetto(saved, perfetto)
            return
        with stdout_kept_for_json(outputs), working(f"compiling {spec} for {target}"):
            from tilesight.roads.observe import observe_spec

            seen = observe_spec(spec, inputs=inputs, target=target, mode=mode, backward=backward, dynamic=dynamic)
            seen = exported(seen, export)
        deliver(seen, outputs)
        deliver_perfetto(seen, perfetto)
        for each in seen.failures:
            complain(f"{each.source}: {each.reason}" if each.source else each.reason)
        if seen.failures:
            raise click.exceptions.Exit(EXIT_BAD_INPUT)


def _diff(before: str, after: str, outputs: Outputs, *, fails_on_more: bool) -> None:
    from tilesight.roads.diff import diff_files

    found = diff_files(Path(before), Path(after))
    deliver(found, outputs)
    grown = found.grown() if fails_on_more else ()
    for each in grown:
        complain(each)
    if grown:
        raise click.exceptions.Exit(EXIT_FINDINGS)
