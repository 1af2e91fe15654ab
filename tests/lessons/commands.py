"""Runs the pages' commands, each once, two at a time, in a copy of the lessons' folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lessons.pages import LESSONS, Transcript, lang_of

LOCALES = {"en": "en_US.UTF-8", "zh": "zh_CN.UTF-8"}
LIMIT_S = 300


@dataclass(frozen=True)
class Command:
    """Lines of shell, the folder they run in (`lessons`, or `.` above it) and the locale's language."""

    text: str
    folder: str = "lessons"
    lang: str = "en"


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    output: str
    errors: str


class Runner:
    """Starts commands when they are first named and keeps what they gave.

    Args:
        root: an empty folder: it gets a copy of the lessons, and `python` and `tilesight` for this interpreter
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(LESSONS, root / "lessons", ignore=shutil.ignore_patterns("pictures", "dumps", "__pycache__"))
        (root / "bin").mkdir()
        self._program("python", '"$@"')
        self._program("tilesight", "-c 'from tilesight.cli import main; main()' \"$@\"")
        self._pool = ThreadPoolExecutor(2)
        self._started: dict[Command, Future[Done]] = {}

    def _program(self, name: str, arguments: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}\n')
        path.chmod(0o755)

    def start(self, command: Command) -> Future[Done]:
        """Put the command on the list; the same one runs once."""
        if command not in self._started:
            self._started[command] = self._pool.submit(self._run, command)
        return self._started[command]

    def result(self, command: Command) -> Done:
        """What the command gave; waits for it."""
        return self.start(command).result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _run(self, command: Command) -> Done:
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command.text],
            cwd=self.root / command.folder,
            env=self._environment(command),
            capture_output=True,
            encoding="utf-8",
            timeout=LIMIT_S,
            check=False,
        )
        return Done(ran.returncode, ran.stdout, ran.stderr)

    def _environment(self, command: Command) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "TORCH_LOGS"))}
        return {
            **kept,
            "PATH": f"{self.root / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "LANG": LOCALES[command.lang],
            "PYTHONUTF8": "1",
            "COLUMNS": "120",
            "TRITON_CACHE_DIR": str(self.root / "triton-cache" / command.folder),  # cached code names its file
            "TORCHINDUCTOR_CACHE_DIR": str(self.root / "inductor-cache"),
        }


def command_of(transcript: Transcript) -> Command:
    """The command of a page's block, in the page's language; one whose output nobody quotes runs in English."""
    folder = "lessons" if transcript.page.parent == LESSONS else "."
    lang = lang_of(transcript.page) if transcript.outputs else "en"
    return Command(transcript.command.text, folder, lang)


_RUNNER = pytest.StashKey[Runner]()


def shared_runner(request: pytest.FixtureRequest, factory: pytest.TempPathFactory) -> Runner:
    """The session's runner. The first call makes it and starts the commands of all collected tests."""
    stash = request.config.stash
    if _RUNNER not in stash:
        stash[_RUNNER] = runner = Runner(factory.mktemp("pages"))
        request.config.add_cleanup(runner.close)
        for command in _collected_commands(request.session.items):
            runner.start(command)
    return stash[_RUNNER]


def _collected_commands(items: list[pytest.Item]) -> list[Command]:
    values = [value for item in items for value in _parameters(item)]
    return [command_of(value) if isinstance(value, Transcript) else value for value in values]


def _parameters(item: pytest.Item) -> list[Command | Transcript]:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return []
    return [value for value in item.callspec.params.values() if isinstance(value, Command | Transcript)]
