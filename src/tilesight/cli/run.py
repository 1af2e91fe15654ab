"""`tilesight run SCRIPT.py [ARGS…]`: run a script unchanged and see what it launches and compiles."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tilesight.cli.deliver import deliver, stdout_kept_for_json
from tilesight.cli.edge import EXIT_FINDINGS, complain, failures_in_one_line
from tilesight.cli.options import Outputs, output_options, target_option
from tilesight.cli.perfetto import check_perfetto, deliver_perfetto, perfetto_option
from tilesight.roads.model import ScriptRun, is_fault

OWN_OPTIONS = ("--json", "--html", "--lang", "--check", "--target", "--perfetto")


@click.command(
    "run",
    short_help="Run a script and report its kernels.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--check", is_flag=True, help="Look for every kind of fault; out of bounds is always looked for.")
@perfetto_option
@target_option
@output_options
@click.argument("script", metavar="SCRIPT.py")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(
    script: str, arguments: tuple[str, ...], check: bool, perfetto: str | None, target: str, outputs: Outputs
) -> None:
    """Run a script as it is, where there is no GPU too, and report every launch and compiled region.

    Options stand before SCRIPT.py; what comes after it is the script's own. Exits with the script's
    code, or with 1 when that is 0 and there are findings.
    """
    with failures_in_one_line(debug=outputs.debug, spec=script):
        outputs.check()
        check_perfetto(perfetto)
        with stdout_kept_for_json(outputs):
            from tilesight.roads.run import run_script

            seen = run_script(script, arguments, target=target, check=check)
        deliver(seen, outputs)
        deliver_perfetto(seen, perfetto)
        if seen.failure:
            complain(seen.failure)
        _tell_misplaced(arguments)
        raise click.exceptions.Exit(exit_code(seen))


def exit_code(seen: ScriptRun) -> int:
    """The script's own code where it failed, else 1 on findings."""
    has_findings = any(is_fault(finding) for trace in seen.launches for finding in trace.findings)
    return seen.exit or (EXIT_FINDINGS if has_findings else 0)


def _tell_misplaced(arguments: Sequence[str]) -> None:
    """Say when an option of ours went to the script, which is seldom meant."""
    misplaced = [word for word in arguments if word.partition("=")[0] in OWN_OPTIONS]
    if misplaced:
        complain(f"{misplaced[0]} went to the script; options of tilesight run stand before SCRIPT.py")
