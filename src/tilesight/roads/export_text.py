"""The text of an exported kernel's file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import fill, indent

from tilesight.capture.inductor.plain_kernel import PlainKernel, plain_kernel, renamed
from tilesight.capture.inductor.standalone import Operand, StandaloneLaunch
from tilesight.roads.export_reference import FILE_TOLERANCES, Held
from tilesight.roads.standalone_template import FILE, GRAPH_REFERENCE, ONLINE_SOFTMAX, OWN_REFERENCE

WIDTH = 110
_TAKEN = {"tensors", "device", "torch", "triton", "tl", "math", "sys", "operator", "aten", "prims", "grid"}


def file_text(
    launch: StandaloneLaunch, held: Held, title: str, origin: Sequence[str], inputs: Mapping[str, str]
) -> str:
    """A Python file that holds the launch's kernel, and runs, checks and times it.

    Args:
        title: what the kernel is, in one line
        origin: lines on where it comes from
        inputs: the user's names of the graph's inputs
    """
    names = operand_names(launch, held, inputs)
    kernel = plain_kernel(launch, names)
    listed = ", ".join(names.values())
    return FILE.substitute(
        title=title,
        origin="".join(fill(line, WIDTH, subsequent_indent="    ", break_long_words=False) + "\n" for line in origin),
        checked_by="what torch gives in float64" if held.reference else "what the generated kernel gives",
        imports="".join(f"{line}\n" for line in kernel.imports),
        constants=_constants(kernel),
        operands="\n".join(_operand(names[each.parameter], each) for each in launch.operands),
        inputs="positive" if held.are_positive else "normal",
        index_limit=launch.index_limit,
        tolerances="\n".join(f"    torch.{name}: {value}," for name, value in FILE_TOLERANCES.items()),
        kernel=kernel.source.strip("\n"),
        names=listed,
        launch=indent(kernel.launch(), "    ").rstrip(),
        reference=_reference(launch, held, names, kernel).strip("\n"),
        name=kernel.name,
    )


def operand_names(launch: StandaloneLaunch, held: Held, inputs: Mapping[str, str]) -> dict[str, str]:
    """A name for each tensor parameter: the user's, the graph's or the wrapper's; `out` for the only output."""
    graph_names = {**dict(held.reference.results), **dict(held.reference.reads)} if held.reference else {}
    used = set(re.findall(r"\w+", "\n".join(held.reference.statements))) if held.reference else set[str]()
    written = [each for each in launch.operands if each.role == "out"]
    found: dict[str, str] = {}
    for operand in launch.operands:
        own = graph_names.get(operand.parameter, operand.buffer)
        wanted = "out" if written == [operand] else inputs.get(own, own)
        wanted = wanted if wanted.isidentifier() else operand.parameter
        while wanted in found.values() or wanted in _TAKEN or (wanted in used and wanted != own):
            wanted += "_"
        found[operand.parameter] = wanted
    return found


def _constants(kernel: PlainKernel) -> str:
    sizes = "".join(f"{name} = {value!r}\n" for name, value in kernel.blocks.items())
    return sizes + "".join(f"{name.upper()} = {value!r}\n" for name, value in kernel.options.items())


def _operand(name: str, operand: Operand) -> str:
    shape, strides = (_tuple(sizes) for sizes in (operand.shape, operand.strides))
    return f'    "{name}": ({shape}, {strides}, torch.{operand.dtype}, "{operand.role}"),'


def _tuple(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def _reference(launch: StandaloneLaunch, held: Held, names: Mapping[str, str], kernel: PlainKernel) -> str:
    listed = ", ".join(names.values())
    if held.reference is None:
        written = [names[each.parameter] for each in launch.operands if each.role != "in"]
        return OWN_REFERENCE.substitute(
            as_generated=kernel.as_generated.strip("\n"),
            names=listed,
            reason=indent(fill(f"Why it is not held against the graph: {held.reason}.", WIDTH), "    "),
            launch=indent(kernel.launch(is_as_generated=True), "    ").rstrip(),
            results=", ".join(f'"{name}": {name}' for name in written),
        )
    own = {name: names[parameter] for parameter, name in held.reference.reads}
    floats = {each.parameter for each in launch.operands if "float" in each.dtype}
    lines = [f"{names[parameter]} = {names[parameter]}.double()\n"
             for parameter, _ in held.reference.reads if parameter in floats]  # fmt: skip
    statements = "\n".join(renamed(line, own) for line in held.reference.statements)
    results = {names[parameter]: own.get(name, name) for parameter, name in held.reference.results}
    device = next(iter(names.values()))
    return GRAPH_REFERENCE.substitute(
        names=listed,
        helper=ONLINE_SOFTMAX if "online_softmax(" in statements else "",
        device=f"    device = {device}.device\n" if re.search(r"\bdevice\b", statements) else "",
        widened=indent("".join(lines), "    "),
        statements=indent(statements, "    "),
        results=", ".join(f'"{name}": {value}' for name, value in results.items()),
    )
