"""`tilesight trace SCRIPT.py|FILE.py:LAUNCH`: the hand-written road."""

from __future__ import annotations

import click

from tilesight.cli.deliver import deliver_traces, stdout_kept_for_json
from tilesight.cli.edge import EXIT_FINDINGS, failures_in_one_line
from tilesight.cli.options import Outputs, output_options, target_option
from tilesight.errors import InputError
from tilesight.roads.model import is_fault


@click.command(
    "trace",
    short_help="The hand-written road of a launch or script.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("spec", metavar="SCRIPT.py|FILE.py:LAUNCH|MODULE:LAUNCH")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
@target_option
@output_options
def command(spec: str, arguments: tuple[str, ...], target: str, outputs: Outputs) -> None:
    """Tiles, masks, bytes and findings of every launch of a script, or of one launch function.

    LAUNCH is a function without arguments that launches a kernel. ARGS are the script's own; write --
    before them when one has the name of an option above. Exits with 1 on a finding.
    """
    with failures_in_one_line(debug=outputs.debug, spec=spec):
        outputs.check()
        with stdout_kept_for_json(outputs):
            from tilesight.roads.trace import trace_spec

            traces = trace_spec(spec, arguments, target=target)
        if not traces:
            raise InputError("no Triton kernel was launched", where=spec, expected="at least one launch")
        deliver_traces(traces, outputs, spec)
        if any(is_fault(finding) for trace in traces for finding in trace.findings):
            raise click.exceptions.Exit(EXIT_FINDINGS)
