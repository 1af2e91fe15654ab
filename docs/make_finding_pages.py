"""Write what Tilesight prints about the kernels on the pages of src/tilesight/checks/pages.

    python docs/make_finding_pages.py [KIND…]

Each page has two Python blocks, the files wrong.py and repaired.py, and one text block: a command on its first
line and what that command says of wrong.py below it.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

from tilesight.checks.kinds import KINDS
from tilesight.cli.app import app

PAGES = Path(__file__).resolve().parents[1] / "src" / "tilesight" / "checks" / "pages"
FILES = ("wrong.py", "repaired.py")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
PRINTED = re.compile(r"```text\n\$ (.*?)\n(.*?)```", re.DOTALL)
FINDINGS = re.compile(r"^Findings\n((?:  .*\n| *\n)*)", re.MULTILINE)


def write_files(text: str, folder: Path) -> None:
    """The page's Python blocks as files."""
    for name, block in zip(FILES, PYTHON.findall(text), strict=True):
        (folder / name).write_text(block)


def command_of(text: str) -> list[str]:
    """The arguments of the page's command, `tilesight` left out."""
    command = PRINTED.search(text)
    assert command is not None
    return shlex.split(command.group(1))[1:]


def findings_of(output: str) -> str:
    """What stands under Findings in the output of `tilesight check`."""
    section = FINDINGS.search(output)
    assert section is not None, output
    lines = (line.rstrip().removeprefix("  ") for line in section.group(1).rstrip().splitlines())
    return "".join(f"{line}\n" for line in lines)


def page(text: str) -> str:
    """The page with its text block made anew."""
    with tempfile.TemporaryDirectory() as folder:
        write_files(text, Path(folder))
        name, spec, *options = command_of(text)
        output = CliRunner().invoke(app, [name, str(Path(folder) / spec), *options, "--lang", "en"]).stdout
    return PRINTED.sub(lambda block: f"```text\n$ {block.group(1)}\n{findings_of(output)}```", text, count=1)


def main() -> None:
    for kind in sys.argv[1:] or KINDS:
        path = PAGES / f"{kind}.md"
        path.write_text(page(path.read_text()))
        print(f"written to {path.name}")


if __name__ == "__main__":
    main()
