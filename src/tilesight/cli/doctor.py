"""`tilesight doctor`: what is here, and what will and will not work."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table
from rich.text import Text

from tilesight.cli.deliver import deliver_json
from tilesight.cli.diagnosis import Ability, Diagnosis, diagnose
from tilesight.cli.edge import EXIT_FINDINGS, failures_in_one_line
from tilesight.cli.options import Outputs, debug_option, json_option
from tilesight.cli.progress import working
from tilesight.report.catalogue import Lang, default_lang
from tilesight.report.serialize import Json
from tilesight.report.terminal import default_console


@click.command("doctor", short_help="What is here and what works.")
@json_option
@click.option("--lang", type=click.Choice(["en", "zh"]), help="Language; from the locale when not given.")
@debug_option
def command(json_path: str | None, lang: Lang | None, debug: bool) -> None:
    """Python, torch, Triton, the GPU and the bundled tools here, and what works with them.

    Exits with 1 when one of the commands cannot work here. A missing GPU is no fault.
    """
    outputs = Outputs(json_path, None, lang or default_lang(), debug)
    with failures_in_one_line(debug=debug):
        outputs.check()
        with working("looking around"):
            found = diagnose()
        deliver_json(to_json(found), json_path)
        if not outputs.json_only:
            _print(found, outputs.lang)
        if any(not ability.ok and ability.is_needed for ability in found.abilities):
            raise click.exceptions.Exit(EXIT_FINDINGS)


def to_json(found: Diagnosis) -> Json:
    """The diagnosis under the keys of `schemas/doctor.json`."""
    return {
        "python": found.python,
        "platform": found.platform,
        "torch": asdict(found.torch),
        "triton": asdict(found.triton),
        "gpus": list(found.gpus),
        "cuda": found.cuda,
        "tools": found.tools,
        "works": [{"what": each.what, "ok": each.ok, "why": each.why} for each in found.abilities],
    }


def _print(found: Diagnosis, lang: Lang) -> None:
    console = default_console()
    here = Table.grid(padding=(0, 2))
    for name, value in _rows(found, lang):
        here.add_row(Text(name, "bold"), Text(value))
    works = Table.grid(padding=(0, 2))
    for ability in found.abilities:
        works.add_row(*_ability(ability, lang))
        if ability.why:
            works.add_row("", Text(ability.why, "dim"))
    console.print(here, Text(), works)


def _rows(found: Diagnosis, lang: Lang) -> list[tuple[str, str]]:
    none = "无" if lang == "zh" else "none"
    return [
        ("python", f"{found.python} ({found.platform})"),
        ("torch", found.torch.version or found.torch.error),
        ("triton", found.triton.version or found.triton.error),
        ("GPU", ", ".join(found.gpus) or none),
        *((name, path or none) for name, path in found.tools.items()),
    ]


def _ability(ability: Ability, lang: Lang) -> tuple[Text, Text]:
    words = {"en": ("works", "does not work"), "zh": ("可用", "不可用")}[lang]
    mark = Text(words[0], "green") if ability.ok else Text(words[1], "bold red" if ability.is_needed else "yellow")
    return mark, Text(ability.chinese if lang == "zh" else ability.what)
