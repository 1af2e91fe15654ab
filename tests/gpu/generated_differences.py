"""How the code generated without a GPU differs from the code generated on one."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping

from tests.gpu.generated import Outcome

_SHOWN_LINES = 24
_KERNEL = re.compile(r"^(\w+) = async_compile\.triton\('[^']*', '''(.*?)''', device_str", re.DOTALL | re.MULTILINE)
_EXTERN = re.compile(r"\b(extern_kernels\.\w+|(?:torch\.ops|aten)\.[\w.]+)\(")


BY_THE_CLOCK = "the GPU's clock chose between the same kernels: not decided offline"


def report_of(offline: Mapping[str, Outcome], device: Mapping[str, Outcome]) -> str:
    """How many are identical, the kinds of difference in the rest, and the first lines of each."""
    kinds = {name: kind_of_difference(offline[name], device[name]) for name in offline if name in device}
    apart = {name: kind for name, kind in kinds.items() if kind}
    same, share = len(kinds) - len(apart), (len(kinds) - len(apart)) / max(1, len(kinds))
    lines = [f"{same} of {len(kinds)} samples ({share:.1%}) are identical: byte for byte, paths and hashes blanked"]
    lines += [f"  {times:4d}  {kind}" for kind, times in Counter(apart.values()).most_common()]
    for name, kind in apart.items():
        lines += ["", f"{name}: {kind}", *_shown(offline[name], device[name])]
    return "\n".join(lines)


def kind_of_difference(offline: Outcome, device: Outcome) -> str:
    """In words where two outcomes part first; empty where they are the same."""
    if offline.error or device.error:
        sides = [side for side, outcome in (("offline", offline), ("on the device", device)) if outcome.error]
        return f"failed {' and '.join(sides)}"
    if any(choices not in device.choices for choices in offline.choices):
        return "other choices to be timed"
    if (len(offline.forward), len(offline.backward)) != (len(device.forward), len(device.backward)):
        return "another number of graphs"
    pairs = [*zip(offline.forward, device.forward, strict=True), *zip(offline.backward, device.backward, strict=True)]
    kind = next((kind for kind in (_kind(*pair) for pair in pairs) if kind), "")
    return BY_THE_CLOCK if kind and offline.choices else kind


def _kind(offline: str, device: str) -> str:
    if offline == device:
        return ""
    if _EXTERN.findall(offline) != _EXTERN.findall(device):
        return "other extern calls"
    here, there = dict(_KERNEL.findall(offline)), dict(_KERNEL.findall(device))
    if list(here) != list(there):
        return "other kernels"
    if here != there:
        return "another kernel text"
    return "another wrapper around the same kernels"


def _shown(offline: Outcome, device: Outcome) -> list[str]:
    """The errors, or the first lines that differ, as a unified diff."""
    if offline.error or device.error:
        return [f"  {side}: {text}" for side, text in (("offline", offline.error), ("device", device.error)) if text]
    before = "\n".join([*offline.forward, *offline.backward]).splitlines()
    after = "\n".join([*device.forward, *device.backward]).splitlines()
    lines = list(difflib.unified_diff(before, after, "offline", "device", lineterm="", n=0))
    return [f"  {line[:200]}" for line in lines[:_SHOWN_LINES]]
