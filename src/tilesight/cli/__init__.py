"""The command line: one file a command; nothing here imports torch until a command runs."""

from __future__ import annotations


def main() -> None:
    """Run `tilesight` with the process's arguments and exit with the command's code."""
    from tilesight.cli.app import app

    app.main(prog_name="tilesight")
