"""The command group: loads a command's file only when that command is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from tilesight import __version__
from tilesight.cli.edge import EXIT_BAD_INPUT, EXIT_INTERRUPTED, complain

COMMANDS = {
    "doctor": "Say what is here and what will and will not work.",
    "observe": "The compiled road: what torch.compile makes of FILE.py:NAME.",
    "run": "Run a script unchanged and report every launch and compiled region.",
    "trace": "The hand-written road: tiles, masks, bytes and findings of a launch.",
    "check": "The sanitizer and the correctness matrix of a launch or a case.",
    "compare": "Eager, compiled and hand-written side by side for FILE.py:CASE.",
    "bench": "Times on the GPU: eager, torch.compile, hand-written kernels and peers.",
}


class LazyGroup(click.Group):
    """A group whose commands live in `tilesight.cli.<name>`, each as `command`.

    Every failure that reaches it is one line on stderr and an exit code, never a traceback.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"tilesight.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            complain(_usage_line(error))
            code = EXIT_BAD_INPUT
        except (click.Abort, KeyboardInterrupt):
            complain("interrupted")
            code = EXIT_INTERRUPTED
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _usage_line(error: click.ClickException) -> str:
    """What was wrong with the call, and where its help is."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "tilesight"
    return f"{message}; see {command} --help"


@click.group(cls=LazyGroup, no_args_is_help=False, invoke_without_command=True, subcommand_metavar="COMMAND ...")
@click.version_option(__version__, prog_name="tilesight", message="%(prog)s %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """The two ways to a GPU kernel, side by side: what torch.compile generates and what you write in Triton.

    No GPU is needed. Each command takes --json PATH|- for its data, and --debug for a traceback when
    something fails. Exit codes: 0 fine, 1 findings, 2 bad input, 3 a fault of Tilesight.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
