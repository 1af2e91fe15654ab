"""`tilesight compare FILE.py:CASE`: both roads side by side."""

from __future__ import annotations

import click

from tilesight.cli.deliver import deliver, stdout_kept_for_json
from tilesight.cli.edge import EXIT_FINDINGS, failures_in_one_line
from tilesight.cli.options import Outputs, output_options, target_option
from tilesight.cli.progress import working
from tilesight.roads.model import Comparison, is_fault


@click.command("compare", short_help="Eager, compiled and hand-written side by side.")
@click.argument("spec", metavar="FILE.py:CASE|MODULE:CASE")
@click.option("--on", metavar="gpu|TARGET", help="Where to measure or what to predict for.")
@target_option
@output_options
def command(spec: str, on: str | None, target: str, outputs: Outputs) -> None:
    """Eager, compiled and hand-written for one tilesight.Case: numbers, bytes, round trips, code.

    Exits with 1 when a provider's numbers are wrong or the hand-written kernel has a finding.
    """
    with failures_in_one_line(debug=outputs.debug, spec=spec):
        outputs.check()
        with stdout_kept_for_json(outputs), working(f"comparing {spec}"):
            from tilesight.roads.compare import compare_spec

            comparison = compare_spec(spec, on=on, target=target)
        deliver(comparison, outputs)
        if has_fault(comparison):
            raise click.exceptions.Exit(EXIT_FINDINGS)


def has_fault(comparison: Comparison) -> bool:
    """A provider's numbers are wrong, or a launch of the hand-written one has a finding."""
    is_wrong = any(provider.ok is False for provider in comparison.providers)
    return is_wrong or any(is_fault(finding) for trace in comparison.hand for finding in trace.findings)
