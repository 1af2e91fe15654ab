"""Why a kernel did not compile, from what Triton raised and what its compilers printed."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import triton
from triton.compiler.errors import CompilationError

from tilesight.capture.launch_errors import compilation_place, compilation_reason
from tilesight.capture.subject import describe
from tilesight.lowering.model import Failure, Stage

_TRITON = str(Path(triton.__file__).parent)
_DIAGNOSTIC = re.compile(r'"?([^\s"(]+\.py)"?:(\d+):\d+\)*: error: (.+)')
_ASSEMBLER = re.compile(r"line (\d+); error\s*: (.+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+) "([^"]+)"(?: "([^"]+)")?', re.MULTILINE)
_PLACE = re.compile(r"^\s*\.loc\s+(\d+) (\d+)")


def explain(error: Exception, stage: Stage, kernel: Any, printed: str, ptx: str) -> Failure:
    """The failure behind an exception.

    Args:
        stage: the one that raised it
        kernel: the JITFunction
        printed: what the compilers wrote to standard error
        ptx: the PTX text, where it came so far
    """
    name = type(error).__name__
    if isinstance(error, CompilationError):
        reason = re.sub(r"^\w+\((['\"])(.*)\1\)$", r"\2", compilation_reason(error))
        return Failure(stage, name, reason, *_split(compilation_place(error, kernel)))
    refused = _ASSEMBLER.search(str(error))
    if stage == "cubin" and refused is not None:
        return Failure(stage, name, f"ptxas: {refused[2].strip()}", *place_in_ptx(ptx, int(refused[1])))
    return explain_print(stage, name, describe(error), printed)


def explain_print(stage: Stage, error: str, fallback: str, printed: str) -> Failure:
    """The failure that a compiler's diagnostics tell; `fallback` where there are none."""
    found = list(_DIAGNOSTIC.finditer(printed))
    users = [match for match in found if not match[1].startswith(_TRITON)]
    for match in users or found:
        return Failure(stage, error, match[3].strip(), match[1], int(match[2]))
    fatal = re.search(r"^(?:LLVM ERROR|error|.*?: error): (.+)", printed, re.MULTILINE)
    return Failure(stage, error, fatal[1].strip() if fatal else fallback)


def place_in_ptx(ptx: str, number: int) -> tuple[str, int]:
    """File and line of the author's code that a line of PTX comes from; ("", 0) where PTX does not say."""
    files = {match[1]: str(Path(match[2], match[3]) if match[3] else match[2]) for match in _FILE.finditer(ptx)}
    for line in reversed(ptx.splitlines()[:number]):
        place = _PLACE.match(line)
        if place and not files.get(place[1], _TRITON).startswith(_TRITON):
            return files[place[1]], int(place[2])
    return "", 0


def _split(where: str) -> tuple[str, int]:
    file, _, line = where.rpartition(":")
    return (file, int(line)) if file else ("", 0)
