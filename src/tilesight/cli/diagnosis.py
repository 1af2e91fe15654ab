"""Find out what is here, without importing torch or Triton into this process.

They are asked in a child process, so that an installation that crashes on import is told, not suffered.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

OLDEST_TORCH = (2, 11)
OLDEST_TRITON = (3, 6)
TOOLS = ("ptxas", "cuobjdump", "nvdisasm")
PROBE_LIMIT_S = 120

_PROBE = """
import json, torch
gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
print(json.dumps({"cuda": torch.version.cuda or torch.version.hip, "gpus": gpus}))
"""


@dataclass(frozen=True)
class Package:
    """An installed package: its version, or why there is none."""

    version: str | None
    error: str = ""


@dataclass(frozen=True)
class Ability:
    """Something Tilesight can do here, or why it can't; `is_needed` where commands depend on it."""

    what: str
    chinese: str
    ok: bool
    why: str
    is_needed: bool = True


@dataclass(frozen=True)
class Diagnosis:
    """What is here.

    Args:
        gpus: names of the GPUs that torch sees
        cuda: the CUDA or ROCm version torch was built for; None for a CPU build
        tools: path of each tool that ships with Triton; None where it is missing
    """

    python: str
    platform: str
    torch: Package
    triton: Package
    gpus: tuple[str, ...]
    cuda: str | None
    tools: dict[str, str | None]
    abilities: tuple[Ability, ...]


def diagnose() -> Diagnosis:
    """Look at the packages, the tools and the GPU; takes as long as importing torch."""
    torch, triton = _package("torch", OLDEST_TORCH), _package("triton", OLDEST_TRITON)
    cuda, gpus = None, ()
    if not torch.error:
        cuda, gpus, error = _ask_torch()
        torch = Package(torch.version, error)
    tools = {name: _tool(name) for name in TOOLS}
    return Diagnosis(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        torch=torch,
        triton=triton,
        gpus=gpus,
        cuda=cuda,
        tools=tools,
        abilities=_abilities(torch, triton, gpus, tools),
    )


def _package(name: str, oldest: tuple[int, int]) -> Package:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Package(None, f"{name} is not installed; pip install {name}")
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < oldest:
        needed = ".".join(map(str, oldest))
        return Package(version, f"{name} {version} is too old; expected {needed} or newer")
    return Package(version)


def _ask_torch() -> tuple[str | None, tuple[str, ...], str]:
    """(CUDA version, GPU names, error) as torch tells them in a child process."""
    try:
        asked = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=PROBE_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None, (), f"importing torch took more than {PROBE_LIMIT_S} s"
    if asked.returncode != 0:
        lines = asked.stderr.strip().splitlines() or [f"exit code {asked.returncode}"]
        return None, (), f"importing torch failed: {lines[-1]}"
    answer = json.loads(asked.stdout.splitlines()[-1])
    return answer["cuda"], tuple(answer["gpus"]), ""


def _tool(name: str) -> str | None:
    """The tool that ships inside the Triton wheel."""
    found = util.find_spec("triton")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "backends" / "nvidia" / "bin" / name
    return str(path) if path.is_file() else None


def _abilities(
    torch: Package, triton: Package, gpus: tuple[str, ...], tools: dict[str, str | None]
) -> tuple[Ability, ...]:
    trouble = torch.error or triton.error
    works = not trouble
    missing = [name for name, path in tools.items() if path is None]
    lowering = "" if not missing else f"{', '.join(missing)} not found in the Triton wheel"
    no_gpu = "" if gpus else "no GPU here; times are not measured"
    return (
        Ability(
            "observe, compare: torch.compile for a GPU that is not here",
            "observe、compare：为不在本机的 GPU 运行 torch.compile",
            works,
            trouble,
        ),
        Ability(
            "run, trace: Triton kernels on the CPU engine",
            "run、trace：在 CPU 引擎上执行 Triton kernel",
            works,
            trouble,
        ),
        Ability(
            "compiling to PTX and machine code for a GPU that is not here (lessons/jit_stages.py)",
            "为不在本机的 GPU 编译出 PTX 与机器码（lessons/jit_stages.py）",
            works and not missing,
            trouble or lowering,
            is_needed=False,
        ),
        Ability(
            "times measured on a GPU", "在 GPU 上实测时间", works and bool(gpus), trouble or no_gpu, is_needed=False
        ),
    )
