"""What each line of a generated kernel is made from, and which tensors it loads and stores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilesight.capture.inductor.graph import Buffer, Call, GeneratedKernel

_ASSIGNED = re.compile(r"^\s*(?:auto |(?:[\w:<>, ]+ )?)_?(tmp(?:_acc)?\d+)\w*\s*=[^=]")
_VALUE = re.compile(r"\b_?(tmp(?:_acc)?\d+)")
_STORES = re.compile(r"^\s*(?:tl\.(?:store|atomic_\w+)\(|tmp\w*\.store\(|atomic_add\w*\(|\w*out_ptr\d+\[)")
_PARAMETER = re.compile(r"\b((?:in_out|in|out|ws|arg)_ptr\d*|in_desc\d*|out_desc\d*)\b")


@dataclass(frozen=True)
class LineLink:
    """One line of a kernel's source.

    Args:
        number: 1-based
        nodes: ATen nodes that it stands for; of a store those of the value
        loads, stores: names of tensors
    """

    number: int
    nodes: tuple[str, ...]
    loads: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()


def link_lines(
    kernel: GeneratedKernel, call: Call, values: Mapping[str, tuple[str, ...]], buffers: Mapping[str, Buffer]
) -> list[LineLink]:
    """The lines of a kernel that compute, load or store something.

    Args:
        kernel: a generated kernel
        call: its launch, whose arguments name the tensors
        values: ATen nodes by the kernel's values, as Inductor noted them
        buffers: the graph's, which tell whose memory a tensor took over
    """
    tensors = _tensor_of_each_parameter(kernel, call)
    loaded = {parameter: _read_as(name, call, buffers) for parameter, name in tensors.items()}
    found = [_link(number, line, loaded, tensors, values) for number, line in enumerate(kernel.source.split("\n"), 1)]
    return [link for link in found if link.nodes or link.loads or link.stores]


def _tensor_of_each_parameter(kernel: GeneratedKernel, call: Call) -> dict[str, str]:
    """The tensor that each pointer parameter stands for: `buf3`, also where a view of it is passed."""
    named: dict[str, str] = {}
    for (parameter, kind), argument in zip(kernel.signature.items(), call.arguments, strict=False):
        if kind.startswith("*") and (names := re.findall(r"[A-Za-z_]\w*", argument)):
            known = [name for name in names if name in call.reads or name in call.writes]
            named[parameter] = (known or names)[0]
    return named


def _read_as(name: str, call: Call, buffers: Mapping[str, Buffer]) -> str:
    """What a load finds in a tensor's memory: where the call makes the tensor in place, what was there before."""
    held = name
    while held not in call.reads and held in buffers and buffers[held].reuses:
        held = buffers[held].reuses
    return held if held in call.reads else name


def _link(
    number: int,
    line: str,
    loaded: Mapping[str, str],
    stored: Mapping[str, str],
    values: Mapping[str, tuple[str, ...]],
) -> LineLink:
    named = [name for name in _PARAMETER.findall(line) if name in stored]
    assigned = _ASSIGNED.match(line)
    if assigned:
        found = tuple(dict.fromkeys(loaded[name] for name in named))
        return LineLink(number, values.get(assigned.group(1), ()), loads=found)
    if named and _STORES.match(line):
        made = [values[name] for name in _VALUE.findall(line) if name in values]
        return LineLink(number, made[-1] if made else (), stores=(stored[named[0]],))
    return LineLink(number, ())
