"""Where a finding is: file and line of the author's own code."""

from __future__ import annotations

import re

from tilesight.engine.launch import Launch, Memory
from tilesight.ir.module import Operation, Value


def line_of(operation: Operation, launch: Launch) -> tuple[str, int]:
    """File and line of the author's frame that an operation comes from.

    TTIR from Triton's cache names the path under which it was first compiled: a frame that is the
    kernel's own is given the file of the launch.
    """
    frame = operation.location.user_frame
    kernel_file = operation.location.kernel_frame.file
    file = launch.file if launch.file and frame.file == kernel_file else frame.file
    return file, frame.line


def launch_line(launch: Launch) -> tuple[str, int]:
    """File and line of the launch itself; the kernel's first line where that is not known."""
    file, _, line = launch.launched_at.rpartition(":")
    return (file, int(line)) if file else (launch.file, launch.first_line)


def name_of(memory: Memory | None) -> str:
    """The caller's name of a tensor, or the parameter's."""
    return (memory.tensor_name or memory.name) if memory is not None else ""


def variable_of(value: Value) -> str:
    """The author's name for a value, as TTIR's locations carry it; empty where there is none."""
    name = value.location.name
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else ""


def lanes_text(first: int, last: int) -> str:
    """`lane 3` or `lanes 3 to 7`."""
    return f"lane {first}" if first == last else f"lanes {first} to {last}"
