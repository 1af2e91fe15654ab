"""The chain from the user's line to the kernel, as columns of names that light up together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilesight.report.catalogue import Catalogue
from tilesight.report.texts import short_source
from tilesight.report.view_model import Chain, ChainColumn, ChainItem, Code, GraphPicture, Source
from tilesight.roads.model import Kernel, Link, Observation

COLUMNS = ("line", "fx", "aten", "buffer", "group", "kernel")


def chain_view(words: Catalogue, seen: Observation) -> Chain | None:
    """The columns and who stands beside whom; None where the chain is not known."""
    if not seen.links:
        return None
    several = len({link.graph for link in seen.links if link.graph}) > 1
    code = {op.source: op.code for op in (*seen.graph.fx, *seen.graph.ops) if op.source}
    columns: list[ChainColumn] = []
    for kind in COLUMNS:
        items = [_item(link, code, several=several) for link in seen.links if link.kind == kind]
        columns.append(ChainColumn(words(f"chain_{kind}"), tuple(items)))
    beside = {link.id: (link.kind, link.before, link.behind) for link in seen.links}
    return Chain(tuple(columns), beside)


def _item(link: Link, code: dict[str, str], *, several: bool) -> ChainItem:
    if link.kind == "line":
        return ChainItem(link.id, f"{short_source(link.name)}  {code.get(link.name, '')}".rstrip(), link.name)
    is_told = several and link.kind != "buffer"  # a buffer's name holds its graph's
    return ChainItem(link.id, link.name, f"{link.graph}: {link.name}" if is_told else link.name)


def linked_code(code: Code, kernels: Sequence[Kernel], links: Sequence[Link]) -> Code:
    """The sources with each line's links; a kernel that is called several times has those of all its calls."""
    known = {link.id for link in links if link.kind == "source"}
    calls: dict[str, list[int]] = {}
    for number, kernel in enumerate(kernels):
        calls.setdefault(kernel.name, []).append(number)
    return replace(
        code, generated=tuple(_linked(source, calls.get(source.title, []), known) for source in code.generated)
    )


def _linked(source: Source, calls: Sequence[int], known: set[str]) -> Source:
    lines = [
        replace(line, link=" ".join(each for n in calls if (each := f"source:{n}.{place}") in known))
        for place, line in enumerate(source.lines, start=1)
    ]
    return replace(source, lines=tuple(lines), link=" ".join(f"kernel:{n}" for n in calls))


def linked_picture(picture: GraphPicture | None, links: Sequence[Link]) -> GraphPicture | None:
    """The picture with the links of its boxes."""
    if picture is None:
        return None
    ids = {link.id for link in links}
    nodes: dict[str, str] = {}
    for link in links:
        if link.kind == "aten":
            nodes.setdefault(link.name, link.id)
    boxes = [
        replace(box, link=link if (link := _id_of(box.kind, box.title, box.band, nodes)) in ids else "")
        for box in picture.boxes
    ]
    return replace(picture, boxes=tuple(boxes))


def _id_of(kind: str, title: str, band: int, nodes: dict[str, str]) -> str:
    if kind == "line":
        return f"line:{title.split(chr(10))[0]}"
    if kind == "kernel":
        return f"kernel:{band}"
    return nodes.get(title.split(" = ")[0], "")
