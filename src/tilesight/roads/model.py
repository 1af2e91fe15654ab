"""What the roads lead to: the records that reports show and JSON carries."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilesight.capture.inductor.timeline import Timeline
from tilesight.capture.parts import Parts
from tilesight.checks.finding import Finding
from tilesight.ledger.model import Bytes, KernelTraffic, Ledger, RoundTrip
from tilesight.ledger.tiles import TilePicture
from tilesight.roads.display import Displayed


@dataclass(frozen=True)
class GraphOp:
    """One node of a graph that Dynamo or AOT captured.

    Args:
        name: the node's name
        target: such as `aten.add.Tensor`, or `relu` for a Dynamo node
        inputs: names of the nodes it reads
        shape, dtype: of its (first) result; empty where it has none
        source: the user's `file:line`, empty where unknown
        code: the user's text on that line; of an input where Dynamo read it, such as `L['x']`
        graph: "inference", or "forward" or "backward" where gradients were asked for
        label: which graph it is of, where there are several, such as `backward` or `graph2`; empty where there is one
    """

    name: str
    target: str
    inputs: tuple[str, ...]
    shape: tuple[int | str, ...]
    dtype: str
    source: str = ""
    code: str = ""
    graph: str = "inference"
    label: str = ""


@dataclass(frozen=True)
class Graph:
    """The graph before lowering (`ops`: ATen) and as Dynamo saw it (`fx`)."""

    ops: tuple[GraphOp, ...]
    fx: tuple[GraphOp, ...] = ()
    inputs: tuple[GraphOp, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One kernel of the compiled road: a generated Triton kernel or an extern call.

    `bytes`, `registers`, `predicted_us` and their neighbours are None until measured. `graph` is "inference", "forward"
    or "backward"; `label` says which of several graphs it is of, as in `GraphOp`. `choices` are the kernels that the
    GPU would time against this one, empty where nothing is open.
    """

    name: str
    kind: str
    ops: tuple[str, ...]
    source: str = ""
    source_lines: tuple[str, ...] = ()
    parts: Parts = Parts()
    grid: tuple[int, ...] | None = None
    config: dict[str, object] = field(default_factory=dict[str, object])
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    bytes: Bytes = Bytes()
    flops: int | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    predicted_us: float | None = None
    graph: str = "inference"
    choices: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True)
class NotFused:
    """Two neighbours that Inductor left apart, with its own reason, and what that costs.

    Args:
        a, b: the ATen nodes of the two, in the order of their calls
        reason: why, in words; Inductor's own where it decided
        bytes: what one kernel in place of the two would not move; None where a size is unknown
        kernels: their positions in `kernels`
        tensors: what the one stores and the other loads, or what both load
        relation: `producer and consumer` or `same input`
        decision: `refused` (a rule of Inductor's), `library call`, `workspace`, `allowed` or `not asked`
        rule, figures: Inductor's words without their figures, and the figures
        meaning: what the rule means; empty where it is not known
        predicted_us: the bytes over the target's bandwidth; None without a target
    """

    a: str
    b: str
    reason: str
    bytes: int | None = None
    kernels: tuple[int, ...] = ()
    tensors: tuple[str, ...] = ()
    relation: str = ""
    decision: str = ""
    rule: str = ""
    figures: tuple[str, ...] = ()
    meaning: str = ""
    predicted_us: float | None = None


@dataclass(frozen=True)
class Link:
    """One thing on the way from the user's line to the lines of a kernel, with its neighbours on both sides.

    Args:
        id: `kind:name`; unique
        kind: `line` (the user's), `fx`, `aten`, `buffer`, `group`, `kernel` or `source` (a line of a kernel)
        name: `file:line`, a node's, a buffer's or the scheduler's name, a kernel's, or the number of a source line
        graph: "inference", "forward" or "backward"; empty for a user's line
        before, behind: ids of its neighbours towards the user's line, and towards the kernel's source
    """

    id: str
    kind: str
    name: str
    graph: str
    before: tuple[str, ...]
    behind: tuple[str, ...]


@dataclass(frozen=True)
class Break:
    """A graph break, or what was not compiled: the user's `file:line` and the reason."""

    source: str
    reason: str


@dataclass(frozen=True)
class CompileTimes:
    """Seconds of the first and the second compilation in this process, and what was cached."""

    cold_s: float | None = None
    warm_s: float | None = None
    cache: str | None = None


@dataclass(frozen=True)
class Exported:
    """A kernel of the compiled road taken out as a file that runs, checks and times itself.

    Args:
        kernel: its name in the generated code
        file: the file's name; empty where there is none
        against: what it checks itself against: "graph" or "generated kernel"; empty without a file
        reason: why there is no file, or no reference from the graph, or why that was not confirmed; may be empty
        text: the file's text
    """

    kernel: str
    file: str = ""
    against: str = ""
    reason: str = ""
    text: str = ""


@dataclass(frozen=True)
class Observation(Displayed):
    """The compiled road of one function or module, for one target.

    `torch` and `triton` are empty where the versions are not known. `recompiles` says which guards of earlier
    compilations failed, so that this one came about; `guards` are its own. Both are empty where nothing told them.
    """

    subject: str
    inputs: tuple[str, ...]
    target: str
    torch: str
    triton: str
    graph: Graph
    breaks: tuple[Break, ...]
    kernels: tuple[Kernel, ...]
    ledger: Ledger
    not_fused: tuple[NotFused, ...]
    compile: CompileTimes
    output_code: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    recompiles: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    exported: tuple[Exported, ...] = ()
    links: tuple[Link, ...] = ()
    timeline: Timeline = field(default_factory=Timeline)
    failures: tuple[Break, ...] = ()


@dataclass(frozen=True)
class Observations(Displayed):
    """Compiled graphs found in a log or in a cache folder, each an Observation of its own.

    Args:
        subject: the log or folder
        regions: one a graph; at least one
        notes: what holds for all: what was cut off or left out
    """

    subject: str
    regions: tuple[Observation, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TracedTensor:
    """A tensor argument of a traced launch."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    elements: int


@dataclass(frozen=True)
class Trace(Displayed):
    """The hand-written road of one launch."""

    kernel: str
    file: str
    first_line: int
    source: str
    parts: Parts
    grid: tuple[int, int, int]
    programs: int
    constexprs: dict[str, object]
    options: dict[str, object]
    tensors: tuple[TracedTensor, ...]
    traffic: KernelTraffic
    findings: tuple[Finding, ...]
    tiles: TilePicture | None = None
    executed_on: str = "engine"
    not_executed: str = ""


@dataclass(frozen=True)
class Provider:
    """One of eager, compiled, hand or a peer.

    Args:
        name: the provider
        ok: every output is within tolerance of the float64 reference
        max_error: largest |output − reference| / (|reference| + rms(reference))
        tolerance: what `ok` was judged by
        bytes: bytes through HBM
        round_trips: intermediates stored and loaded again
        note: why a figure is missing, in one sentence
    """

    name: str
    ok: bool | None
    max_error: float | None
    tolerance: float | None
    bytes: Bytes = Bytes()
    round_trips: tuple[RoundTrip, ...] = ()
    kernels: tuple[str, ...] = ()
    predicted_us: float | None = None
    measured_us: float | None = None
    roofline_share: float | None = None
    note: str = ""


@dataclass(frozen=True)
class LinePair:
    """A line of the hand-written kernel next to its counterpart in the generated one.

    `part` is `program_id`, `load`, `store`, `mask` or `compute`; an empty text means that the
    other kernel has no such line.
    """

    part: str
    hand_line: int
    hand: str
    generated_line: int
    generated: str


@dataclass(frozen=True)
class Comparison(Displayed):
    """One case on both roads, side by side."""

    case: str
    inputs: tuple[str, ...]
    target: str
    ideal_bytes: int
    providers: tuple[Provider, ...]
    observation: Observation
    hand: tuple[Trace, ...]
    pairs: tuple[LinePair, ...] = ()


@dataclass(frozen=True)
class ScriptRun(Displayed):
    """What `tilesight run` saw of a script; `failure` is what it raised, in one line, empty where it did not."""

    script: str
    exit: int
    launches: tuple[Trace, ...]
    regions: tuple[Observation, ...]
    notes: tuple[str, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class CheckedFinding(Finding):
    """A finding of a check: the smallest case that shows it, and how often it was seen.

    Args:
        case: inputs of that case, such as `f32[1,17]`; empty for a launch
        case_count: cases that show it
        launch_count: launches that show it
        source: the text of its line
    """

    case: str = ""
    case_count: int = 1
    launch_count: int = 1
    source: str = ""


@dataclass(frozen=True)
class CheckedCase:
    """One run of the correctness matrix.

    Args:
        inputs: the inputs as a text that `--shapes` takes
        shape: of every tensor input
        dtype: of the floating-point inputs; of the first tensor where there are none
        strides: `contiguous`, or which input was laid out how
        ok: the outputs are within tolerance; None where the operator or its launcher takes no such input
        error: largest |output − reference| / (|reference| + rms(reference)); None when not judged
        tolerance: what `ok` was judged by
        note: why there is no error, in one line
        grids: the grid of each of its launches
        kinds: of the findings that fail it
    """

    inputs: str
    shape: tuple[tuple[int, ...], ...]
    dtype: str
    strides: str
    ok: bool | None
    error: float | None = None
    tolerance: float | None = None
    note: str = ""
    grids: tuple[tuple[int, int, int], ...] = ()
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Check(Displayed):
    """What the sanitizer and the correctness matrix found of a launch or a case.

    Args:
        subject: what was checked
        target: the GPU whose limits hold
        cases: the runs, the smallest failing one first, then from small to large; of a launch function,
            one if it failed
        findings: each fault once
        launches: kernels launched in all runs
        smallest_failing: inputs and layout of the smallest case that fails; empty when all hold
        notes: what was left out, and why
    """

    subject: str
    target: str
    cases: tuple[CheckedCase, ...]
    findings: tuple[CheckedFinding, ...]
    launches: int
    smallest_failing: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """No case failed, and every finding is harmless."""
        return all(case.ok is not False for case in self.cases) and not any(map(is_fault, self.findings))


def is_fault(finding: Finding) -> bool:
    """Whether a finding fails a check: errors and warnings do, notes do not."""
    return finding.level != "note"


Key = tuple[str, str, int, str]


def place(finding: Finding) -> Key:
    """What two sightings of one fault have in common: kind, file, line and tensor."""
    return finding.kind, finding.file, finding.line, finding.tensor
