"""What a report shows, as frozen records of finished texts: the renderers only lay them out."""

from __future__ import annotations

from dataclasses import dataclass

from tilesight.report.catalogue import Lang


@dataclass(frozen=True)
class Fact:
    """One line of a head or a short list: a label and its value."""

    label: str
    value: str


@dataclass(frozen=True)
class Card:
    """One main number.

    Args:
        key: the catalogue's key of the label
        tone: `plain`, `good`, `bad`, `unknown` (not measured) or a provider's name
    """

    key: str
    label: str
    value: str
    detail: str = ""
    tone: str = "plain"


@dataclass(frozen=True)
class Cell:
    """One field of a table; `title` is the exact figure, `link` the anchor of a source line."""

    text: str
    title: str = ""
    tone: str = "plain"
    link: str = ""


@dataclass(frozen=True)
class Column:
    """A column; `is_number` aligns right, `is_code` is set in the monospaced face."""

    key: str
    label: str
    is_number: bool = False
    is_code: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under their columns; `caption` names what was left out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    caption: str = ""

    def column(self, key: str) -> tuple[str, ...]:
        """The texts of one column, top to bottom."""
        place = [column.key for column in self.columns].index(key)
        return tuple(row[place].text for row in self.rows)


@dataclass(frozen=True)
class FindingView:
    """A finding: what, where (`file:line` and its short form), which lanes, and the repair.

    Args:
        lanes: empty where no lanes are to blame
        level: `error`, `warning` or `note`
        source: the text of its line; may be empty
        case: the smallest case that shows it, and how many do; empty for a launch
        more: the command that prints the page about its kind; of the first finding of each kind only
    """

    kind: str
    place: str
    short_place: str
    lanes: str
    tensor: str
    message: str
    hint: str
    level: str = "error"
    source: str = ""
    case: str = ""
    more: str = ""


@dataclass(frozen=True)
class SourceLine:
    """A line of a kernel: the number shown, its text, the parts it belongs to, a finding on it."""

    number: int
    text: str
    anchor: str
    parts: tuple[str, ...] = ()
    finding: str = ""
    link: str = ""

    @property
    def part(self) -> str:
        """The part that colours the line; an access before the mask that is written inside it."""
        if not self.parts:
            return ""
        order = ("program_id", "load", "store", "mask")
        return min(self.parts, key=order.index)


@dataclass(frozen=True)
class Source:
    """A kernel's text.

    Args:
        road: `hand`, `generated` or `extern`
        folded: how many lines at the start (imports, heuristics) are folded away
        link: ids of its calls in the chain, apart by blanks
    """

    road: str
    title: str
    subtitle: str
    lines: tuple[SourceLine, ...]
    folded: int = 0
    link: str = ""


@dataclass(frozen=True)
class Pair:
    """A hand-written line beside its generated counterpart; numbers are 0 where there is none."""

    part: str
    label: str
    hand_number: int
    hand: str
    hand_link: str
    generated_number: int
    generated: str
    generated_link: str


@dataclass(frozen=True)
class Code:
    """The kernels' sources; hand-written and generated stand side by side when there are both."""

    hand: tuple[Source, ...]
    generated: tuple[Source, ...]
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class Bar:
    """One bar of a bar picture; `share` of the longest one is None when not measured."""

    key: str
    label: str
    value: str
    title: str
    share: float | None


@dataclass(frozen=True)
class GraphBox:
    """A box of the graph picture in user units, with its lines of text cut to fit.

    Args:
        kind: `line`, `op`, `view` (an operator that moves nothing), `kernel`, `inputs` or `outputs`
        band: number of the kernel it belongs to, for the colour; −1 for none
        title: the whole text
    """

    kind: str
    x: float
    y: float
    width: float
    height: float
    texts: tuple[str, ...]
    title: str
    band: int = -1
    link: str = ""


@dataclass(frozen=True)
class GraphEdge:
    """An arrow: an SVG path, `link` (line → op), `flow` (op → op) or `trip` (through HBM)."""

    kind: str
    path: str
    title: str = ""
    label: str = ""
    label_x: float = 0.0
    label_y: float = 0.0


@dataclass(frozen=True)
class GraphPicture:
    """The graph laid out: bands behind, boxes and edges in front, headings of the columns on top."""

    width: float
    height: float
    headings: tuple[tuple[float, str], ...]
    bands: tuple[GraphBox, ...]
    boxes: tuple[GraphBox, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True)
class ChainItem:
    """A thing in the chain: its id, the text shown, the whole text."""

    link: str
    text: str
    title: str


@dataclass(frozen=True)
class ChainColumn:
    """All things of one kind."""

    label: str
    items: tuple[ChainItem, ...]


@dataclass(frozen=True)
class Chain:
    """From the user's line to the kernel: a column a kind, and by id the kind and the neighbours on both sides."""

    columns: tuple[ChainColumn, ...]
    beside: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True)
class Tile:
    """One tile of the row: where it lies in the picture, its label and its elements.

    `off_share` of its width lies past the tensor's end; a gap of undrawn programs has `is_gap`.
    """

    x: float
    width: float
    label: str
    first: str = ""
    last: str = ""
    off_share: float = 0.0
    is_gap: bool = False


@dataclass(frozen=True)
class Tail:
    """The last tile up close.

    Args:
        on_width: width in user units of the lanes that exist
        is_masked: the mask holds the others off; else they went out of bounds
    """

    heading: str
    on_text: str
    off_text: str
    on_width: float
    is_masked: bool
    first: str
    end: str
    last: str


@dataclass(frozen=True)
class TilesPicture:
    """A long vector cut into tiles, and its tail."""

    title: str
    help: str
    width: float
    tiles: tuple[Tile, ...]
    tail: Tail | None
    no_tail: str = ""


@dataclass(frozen=True)
class TimeBox:
    """A block of time in the picture; `title` has its whole name and its time."""

    phase: str
    x: float
    y: float
    width: float
    height: float
    text: str
    title: str


@dataclass(frozen=True)
class TimelinePicture:
    """Blocks over time; the legend is (phase, its name) of those that are there."""

    width: float
    height: float
    boxes: tuple[TimeBox, ...]
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TextDiff:
    """Two texts against each other: lines of a unified diff, each with its kind.

    Args:
        lines: (`added`, `removed`, `same` or `place`, the text)
    """

    title: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Plot:
    """A plot as a whole SVG element, and its title."""

    title: str
    svg: str


@dataclass(frozen=True)
class ReportView:
    """Everything one report shows, in the order it is shown; empty parts are left out.

    `children` are the launches and regions of a script, each a report of its own.
    """

    kind: str
    lang: Lang
    title: str
    subtitle: str
    facts: tuple[Fact, ...]
    cards: tuple[Card, ...]
    findings: tuple[FindingView, ...] = ()
    is_checked: bool = False
    numerics: Table | None = None
    matrix: tuple[Table, ...] = ()
    times: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    graph: GraphPicture | None = None
    chain: Chain | None = None
    code: Code | None = None
    bars: tuple[Bar, ...] = ()
    bars_note: str = ""
    trips: Table | None = None
    has_ledger: bool = False
    tiles: tuple[TilesPicture, ...] = ()
    accesses: tuple[Table, ...] = ()
    kernels: Table | None = None
    compile: tuple[Fact, ...] = ()
    timeline: TimelinePicture | None = None
    not_fused: Table | None = None
    breaks: Table | None = None
    failures: Table | None = None
    recompiles: Table | None = None
    guards: Table | None = None
    changes: tuple[Table, ...] = ()
    source_changes: tuple[TextDiff, ...] = ()
    notes: tuple[str, ...] = ()
    children: tuple[ReportView, ...] = ()
