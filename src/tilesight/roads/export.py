"""Generated kernels taken out again: each as one file that runs, checks and times itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tilesight.capture.inductor.fragments import Fragment, read_fragments
from tilesight.capture.inductor.graph import Call, CompiledRegion
from tilesight.capture.inductor.plain_kernel import short_name
from tilesight.capture.inductor.saved_code import read_code
from tilesight.capture.inductor.standalone import stand_alone
from tilesight.errors import TilesightError
from tilesight.roads.export_reference import find_held
from tilesight.roads.export_text import file_text
from tilesight.roads.model import Exported, Kernel, Observation, Observations

NO_TRITON = {"extern": "a library's call: it has no Triton source", "cpp": "C++ for the CPU: it has no Triton source"}
_STEP = re.compile(r"\['(\w+)'\]|\.(\w+)")
_CONTAINERS = ("self", "_modules", "_parameters", "_buffers")


def with_exports(seen: Observation | Observations) -> Observation | Observations:
    """The same with a standalone file for each generated kernel, as text: nothing is written here."""
    taken: set[str] = set()
    if isinstance(seen, Observation):
        return _with_exports(seen, taken)
    return replace(seen, regions=tuple(_with_exports(each, taken) for each in seen.regions))


def _with_exports(seen: Observation, taken: set[str]) -> Observation:
    exported = tuple(_exports(seen, taken))
    why: dict[str, list[str]] = {}
    for each in exported:
        if not each.file:
            why.setdefault(each.reason, []).append(each.kernel)
    notes = [f"not exported: {', '.join(names)}: {reason}" for reason, names in why.items()]
    return replace(seen, exported=exported, notes=(*seen.notes, *notes))


def _exports(seen: Observation, taken: set[str]) -> Iterator[Exported]:
    """Each kernel once, those of every graph in order, then what has no file, with the reason."""
    inputs = input_names(seen)
    for code in filter(None, seen.output_code):
        region = read_code(code, seen.subject).region
        fragments = read_fragments(code)
        launches = {call.kernel: call for call in reversed(region.calls) if call.is_triton}
        for call in sorted(launches.values(), key=region.calls.index):
            yield _export(seen, region, call, fragments.get(call.kernel), taken, inputs)
    without = {kernel.name: kernel.kind for kernel in seen.kernels if kernel.kind in NO_TRITON}
    for name, kind in without.items():
        yield Exported(name, reason=NO_TRITON[kind])


def _export(
    seen: Observation,
    region: CompiledRegion,
    call: Call,
    fragment: Fragment | None,
    taken: set[str],
    inputs: Mapping[str, str],
) -> Exported:
    """The call's kernel as a file, or why it has none."""
    known = [kernel for kernel in region.kernels if kernel.name == call.kernel and kernel.configs]
    if not known:
        return Exported(call.kernel, reason="its module is not loaded here: see the notes")
    try:
        launch = stand_alone(region, call)
        held = find_held(launch, fragment, region.sizes)
        text = file_text(launch, held, _title(seen, call), _origin(seen, call), inputs)
    except TilesightError as error:
        return Exported(call.kernel, reason=str(error))
    against = "graph" if held.reference else "generated kernel"
    return Exported(call.kernel, _file_name(call.kernel, taken), against, held.reason, text)


def _file_name(kernel: str, taken: set[str]) -> str:
    name = short_name(kernel)
    number, found = 1, f"{name}.py"
    while found in taken:
        number += 1
        found = f"{name}_{number}.py"
    taken.add(found)
    return found


def _title(seen: Observation, call: Call) -> str:
    return f"{', '.join(call.ops) or call.kernel}: a kernel that torch.compile generated for {seen.target}."


def _origin(seen: Observation, call: Call) -> list[str]:
    """Where it comes from: the function, the generated kernel, the user's lines, the versions."""
    kernel = next((each for each in seen.kernels if each.name == call.kernel), Kernel(call.kernel, "triton", ()))
    lines = ", ".join(f"{Path(file).name}:{line}" for file, _, line in (s.rpartition(":") for s in kernel.source_lines))
    versions = f"torch {seen.torch}, Triton {seen.triton}" if seen.torch else ""
    return [
        f"From {Path(seen.subject).name}, as {call.kernel}{f' ({versions})' if versions else ''}.",
        *([f"Your lines: {lines}."] if lines else []),
        "Names are changed and the heuristics are gone; every operation is the generated one.",
    ]


def input_names(seen: Observation) -> dict[str, str]:
    """The user's name for each input of the only graph of its kind: `w` for `L['w']`, `q_weight` for a module's."""
    kinds = {kernel.graph for kernel in seen.kernels}
    if len(seen.output_code) != len(kinds):
        return {}
    found = {op.name: _name_in(op.code) for op in seen.graph.inputs if op.graph != "backward"}
    return {name: own for name, own in found.items() if own}


def _name_in(source: str) -> str:
    steps = [key or attribute for key, attribute in _STEP.findall(source)]
    return "_".join([step for step in steps if step not in _CONTAINERS][-2:])
