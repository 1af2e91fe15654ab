"""What torch.compile leaves behind in a run of its own: a TORCH_TRACE log, a debug folder, a cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SCRIPT = """
import torch
import torch.nn.functional as F


def block(x, w):
    h = torch.relu(x @ w)
    torch._dynamo.graph_break()
    return F.softmax(h, dim=-1) + 1


def scaled(x):
    return torch.softmax(x * 2, -1)


compiled = torch.compile(block)
compiled(torch.randn(8, 16), torch.randn(16, 32))
compiled(torch.randn(9, 16), torch.randn(16, 32))
torch.compile(scaled)(torch.randn(4, 64, requires_grad=True)).sum().backward()
if WARM:
    torch._dynamo.reset()
    torch.compile(scaled)(torch.randn(4, 64, requires_grad=True))
"""


@dataclass(frozen=True)
class LeftBehind:
    """Paths of what one run wrote."""

    script: Path
    log: Path
    debug: Path
    cache: Path

    def output_code(self, graph: str) -> Path:
        """The generated code of the graph in the debug folder."""
        (found,) = self.debug.rglob(f"*{graph}*/output_code.py")
        return found


def compile_in_folder(folder: Path) -> LeftBehind:
    """Run torch.compile with Inductor's C++ back end on the CPU, in a process of its own."""
    script = folder / "demo.py"
    script.write_text(SCRIPT.replace("WARM", "True"))
    places = {
        "TORCH_TRACE": folder / "trace",
        "TORCH_COMPILE_DEBUG_DIR": folder / "debug",
        "TORCHINDUCTOR_CACHE_DIR": folder / "cache",
    }
    environment = {**os.environ, **{name: str(path) for name, path in places.items()}, "TORCH_COMPILE_DEBUG": "1"}
    run = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    (log,) = (folder / "trace").iterdir()
    return LeftBehind(script, log, folder / "debug", folder / "cache")
