"""The graph as a picture: the user's lines, their ATen operators in one band a kernel, HBM round trips.

Three columns and a gutter, top to bottom in the order of the kernels' calls; no general graph layout
is needed because a kernel's operators stand together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tilesight.report.catalogue import Catalogue
from tilesight.report.picture_match import is_view, kernel_of_each_op, with_own_names
from tilesight.report.texts import bytes_text, grid_text, short_source, tensor_type_text
from tilesight.report.view_model import GraphBox, GraphEdge, GraphPicture
from tilesight.roads.model import GraphOp, Kernel, Observation

LINE_X, LINE_WIDTH, LINE_HEIGHT = 0.0, 300.0, 40.0
OP_X, OP_WIDTH, OP_HEIGHT, OP_STEP = 390.0, 300.0, 24.0, 32.0
KERNEL_X, KERNEL_WIDTH, KERNEL_HEIGHT = 730.0, 340.0, 56.0
GUTTER_X, LANE_WIDTH = KERNEL_X + KERNEL_WIDTH, 22.0
BAND_X, BAND_PAD, BAND_GAP = 372.0, 9.0, 14.0
TOP = 30.0
LETTER = 6.7
"""Width of a monospaced letter at the picture's 11-pixel type."""


@dataclass(frozen=True)
class _Band:
    """A kernel (or none: −1) with its operators."""

    kernel: int
    ops: tuple[GraphOp, ...]


def graph_picture(words: Catalogue, seen: Observation) -> GraphPicture | None:
    """The picture of an observation; None when it has neither operators nor kernels."""
    seen = with_own_names(seen)
    bands = _bands(seen)
    if not bands:
        return None
    column = _Column(words)
    column.add_ends("inputs", [_typed(op) for op in seen.graph.inputs])
    for band in bands:
        column.add_band(band, seen.kernels[band.kernel] if band.kernel >= 0 else None)
    column.add_ends("outputs", seen.graph.outputs)
    lines, links, lines_bottom = _place_lines(seen, column.ops)
    trips, width = _trips(seen, {box.band: box for box in column.boxes if box.kind == "kernel"})
    headings = ((LINE_X, "graph_lines"), (OP_X, "graph_aten"), (KERNEL_X, "graph_kernels"))
    if trips:
        headings += ((GUTTER_X + 10, "graph_hbm"),)
    return GraphPicture(
        width=width,
        height=max(column.y - BAND_GAP, lines_bottom) + 4,
        headings=tuple((x, words(key)) for x, key in headings),
        bands=tuple(column.backs),
        boxes=(*lines, *column.ops.values(), *column.boxes),
        edges=(*links, *_flows(bands, column.ops), *trips),
    )


def fit(text: str, width: float) -> str:
    """The text, cut with an ellipsis to what `width` holds; CJK letters count double."""
    room = width / LETTER
    used = 0.0
    for place, letter in enumerate(text):
        used += 2 if ord(letter) > 0x2E80 else 1
        if used > room:
            return text[: max(place - 1, 0)] + "…"
    return text


def _bands(seen: Observation) -> list[_Band]:
    """One band a kernel, in call order; operators without a kernel stand after their inputs' band."""
    ops = seen.graph.ops
    homes = kernel_of_each_op(ops, seen.kernels)
    rank: dict[str, float] = {}
    for op in ops:
        inputs = [rank[name] for name in op.inputs if name in rank]
        after_inputs = max(inputs, default=-0.5)
        is_between = after_inputs != int(after_inputs)
        rank[op.name] = homes.get(op.name, after_inputs if is_between else after_inputs + 0.5)
    ranks = sorted({*rank.values(), *map(float, range(len(seen.kernels)))})
    return [_Band(int(r) if r == int(r) else -1, tuple(op for op in ops if rank[op.name] == r)) for r in ranks]


@dataclass
class _Column:
    """The ATen and kernel columns while they are filled from the top."""

    words: Catalogue
    y: float = TOP

    def __post_init__(self) -> None:
        self.backs: list[GraphBox] = []
        self.boxes: list[GraphBox] = []
        self.ops: dict[str, GraphBox] = {}

    def add_ends(self, kind: str, names: Sequence[str]) -> None:
        """The graph's inputs or outputs, in one box."""
        if names:
            text = f"{self.words(f'graph_{kind}')}: {', '.join(names)}"
            self.boxes.append(GraphBox(kind, OP_X, self.y, OP_WIDTH, OP_HEIGHT, (fit(text, OP_WIDTH - 16),), text))
            self.y += OP_HEIGHT + BAND_GAP

    def add_band(self, band: _Band, kernel: Kernel | None) -> None:
        """One kernel's operators and its box, or operators that have none."""
        ops_height = len(band.ops) * OP_STEP - (OP_STEP - OP_HEIGHT)
        inner = max(ops_height, KERNEL_HEIGHT) if kernel else ops_height
        width = KERNEL_X + KERNEL_WIDTH - BAND_X + BAND_PAD if kernel else OP_WIDTH + 36
        title = "" if kernel else self.words("graph_view")
        self.backs.append(GraphBox("band", BAND_X, self.y, width, inner + 2 * BAND_PAD, (), title, band.kernel))
        top = self.y + BAND_PAD + (inner - ops_height) / 2
        for place, op in enumerate(band.ops):
            self.ops[op.name] = _op_box(op, top + place * OP_STEP, band.kernel)
        if kernel:
            kernel_y = self.y + BAND_PAD + (inner - KERNEL_HEIGHT) / 2
            self.boxes.append(_kernel_box(self.words, kernel, kernel_y, band.kernel))
        self.y += inner + 2 * BAND_PAD + BAND_GAP


def _typed(op: GraphOp) -> str:
    return f"{op.name} {tensor_type_text(op.dtype, op.shape)}".rstrip()


def _op_box(op: GraphOp, y: float, band: int) -> GraphBox:
    kind = tensor_type_text(op.dtype, op.shape)
    right = fit(kind, OP_WIDTH / 2 - 16)
    left = fit(op.target, OP_WIDTH - 24 - len(right) * LETTER)
    place = f"\n{op.source}  {op.code}" if op.source else ""
    title = f"{op.name} = {op.target}({', '.join(op.inputs)}) → {kind}{place}"
    return GraphBox("view" if is_view(op) else "op", OP_X, y, OP_WIDTH, OP_HEIGHT, (left, right), title, band)


def _kernel_box(words: Catalogue, kernel: Kernel, y: float, band: int) -> GraphBox:
    kind = kernel.kind if kernel.kind != "extern" else words("graph_extern")
    launch = f"{kind} · {words('grid')} {grid_text(kernel.grid)}" if kernel.grid else kind
    moved = kernel.bytes.touched if kernel.bytes.dram is None else kernel.bytes.dram
    amount = words("not_measured") if moved is None else bytes_text(moved)
    room = KERNEL_WIDTH - 16
    texts = (fit(kernel.name, room), fit(launch, room), fit(f"{words('bytes')}: {amount}", room))
    title = "\n".join((kernel.name, *kernel.source_lines))
    return GraphBox("kernel", KERNEL_X, y, KERNEL_WIDTH, KERNEL_HEIGHT, texts, title, band)


def _place_lines(seen: Observation, ops: dict[str, GraphBox]) -> tuple[list[GraphBox], list[GraphEdge], float]:
    """The user's lines, each near the operators it became, and the links to them."""
    code: dict[str, str] = {}
    nodes: dict[str, list[str]] = {}
    for op in (*seen.graph.fx, *seen.graph.ops):
        if op.source:
            code.setdefault(op.source, op.code)
    for node in seen.graph.fx:
        nodes.setdefault(node.source, []).append(node.name)
    made = {source: [ops[op.name] for op in seen.graph.ops if op.source == source] for source in code}
    middles = {source: median(_middle(box) for box in boxes) for source, boxes in made.items() if boxes}
    firsts = _first_of_each_run(seen, ops)
    boxes: list[GraphBox] = []
    links: list[GraphEdge] = []
    y = TOP
    for source in sorted(code, key=lambda each: middles.get(each, 0.0)):
        y = max(y, middles.get(source, y) - LINE_HEIGHT / 2)
        boxes.append(_line_box(source, code[source], nodes.get(source, ()), y))
        links += [_link(boxes[-1], box) for box in made[source] if box.y in firsts]
        y += LINE_HEIGHT + 8
    return boxes, links, y


def _middle(box: GraphBox) -> float:
    return box.y + box.height / 2


def _first_of_each_run(seen: Observation, ops: dict[str, GraphBox]) -> set[float]:
    """Heights of the operators whose neighbour above comes from another line: only they get a link."""
    column = sorted((ops[op.name].y, op.source) for op in seen.graph.ops)
    above = ["", *(source for _, source in column)]
    return {y for (y, source), before in zip(column, above, strict=False) if source != before}


def _line_box(source: str, code: str, nodes: Sequence[str], y: float) -> GraphBox:
    place = short_source(source)
    names = ", ".join(nodes)
    head = f"{place}  {names}" if names else place
    room = LINE_WIDTH - 16
    title = "\n".join(part for part in (source, code, names) if part)
    return GraphBox("line", LINE_X, y, LINE_WIDTH, LINE_HEIGHT, (fit(head, room), fit(code, room)), title)


def _link(line: GraphBox, op: GraphBox) -> GraphEdge:
    x0, y0 = line.x + line.width, line.y + line.height / 2
    x1, y1 = op.x, op.y + op.height / 2
    middle = (x0 + BAND_X) / 2
    path = f"M{x0:.1f} {y0:.1f} C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {BAND_X:.1f} {y1:.1f} H{x1:.1f}"
    return GraphEdge("link", path)


def _flows(bands: Sequence[_Band], ops: dict[str, GraphBox]) -> list[GraphEdge]:
    """Arrows between the operators of a band: values that stay on the chip."""
    edges: list[GraphEdge] = []
    for band in bands:
        names = [op.name for op in band.ops]
        for place, op in enumerate(band.ops):
            for name in dict.fromkeys(name for name in op.inputs if name in names[:place]):
                edges.append(_flow(ops[name], ops[op.name], is_next=name == names[place - 1]))
    return edges


def _flow(start: GraphBox, end: GraphBox, *, is_next: bool) -> GraphEdge:
    """Straight down to the next operator, around the right side to one further down."""
    if is_next:
        return GraphEdge("flow", f"M{OP_X + OP_WIDTH / 2} {start.y + start.height:.1f} V{end.y:.1f}")
    x, y0, y1 = OP_X + OP_WIDTH, start.y + start.height * 0.6, end.y + end.height * 0.4
    out = x + min(8 + (y1 - y0) / 12, 26)
    return GraphEdge("flow", f"M{x} {y0:.1f} C{out:.1f} {y0:.1f} {out:.1f} {y1:.1f} {x + 1} {y1:.1f}")


def _trips(seen: Observation, boxes: dict[int, GraphBox]) -> tuple[list[GraphEdge], float]:
    """Arcs between kernels whose intermediates go through HBM, each tensor in a lane of the gutter."""
    amounts = {trip.tensor: trip.bytes for trip in seen.ledger.round_trips}
    ends: list[float] = []
    edges: list[GraphEdge] = []
    for writer, kernel in enumerate(seen.kernels):
        for tensor in kernel.writes:
            readers = [boxes[number] for number in _readers(seen.kernels, writer, tensor)]
            if readers:
                lane = next((i for i, free in enumerate(ends) if free <= boxes[writer].y), len(ends))
                ends[lane : lane + 1] = [_middle(readers[-1])]
                edges += _trip(boxes[writer], readers, tensor, amounts.get(tensor), lane)
    if not edges:
        return [], GUTTER_X + BAND_PAD + 2
    right = GUTTER_X + 8 + len(ends) * LANE_WIDTH
    longest = max(len(edge.label) for edge in edges)
    return _with_labels(edges, right), right + longest * LETTER + 8


def _with_labels(edges: Sequence[GraphEdge], x: float) -> list[GraphEdge]:
    """The arcs with their labels in one column, pushed down where two would overlap."""
    labelled: list[GraphEdge] = []
    y = 0.0
    for edge in sorted(edges, key=lambda each: each.label_y):
        if edge.label:
            y = max(edge.label_y, y + 14)
        labelled.append(replace(edge, label_x=x, label_y=y))
    return labelled


def _readers(kernels: Sequence[Kernel], writer: int, tensor: str) -> list[int]:
    """Kernels after `writer` that read the tensor, up to the next one that writes it anew."""
    readers: list[int] = []
    for number in range(writer + 1, len(kernels)):
        if tensor in kernels[number].reads:
            readers.append(number)
        if tensor in kernels[number].writes:
            break
    return readers


def _trip(start: GraphBox, readers: Sequence[GraphBox], tensor: str, amount: int | None, lane: int) -> list[GraphEdge]:
    """One arc to each reader along one lane; the first carries the label."""
    label = f"{tensor} {bytes_text(amount)}" if amount is not None else tensor
    x, y0 = start.x + start.width, start.y + start.height * 0.7
    out = GUTTER_X + 24 + lane * LANE_WIDTH
    edges: list[GraphEdge] = []
    for reader in readers:
        y1 = reader.y + reader.height * 0.3
        path = f"M{x:.1f} {y0:.1f} H{out - 8:.1f} Q{out:.1f} {y0:.1f} {out:.1f} {y0 + 8:.1f} "
        path += f"V{y1 - 8:.1f} Q{out:.1f} {y1:.1f} {out - 8:.1f} {y1:.1f} H{x + 1:.1f}"
        edges.append(GraphEdge("trip", path, label, "" if edges else label, label_y=(y0 + y1) / 2))
    return edges
