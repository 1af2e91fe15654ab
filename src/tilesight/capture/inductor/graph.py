"""What the compiled road is made of, as capture hands it on: no torch objects, only records."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilesight.capture.inductor.timeline import Timeline
from tilesight.errors import TilesightError


@dataclass(frozen=True)
class Node:
    """One FX node: a placeholder, an operator or the output.

    Args:
        name: the node's name
        op: placeholder, call_function, call_method, call_module, get_attr or output
        target: such as `aten.add.Tensor` (ATen graph) or `relu` (Dynamo's graph)
        inputs: names of the nodes it reads
        shape, dtype: of its first tensor result; empty where it has none
        bytes: of all its tensor results; None for symbolic shapes
        is_view: its result shares memory with an input
        source, code: the user's file:line and the text there
        item: of a `getitem` node which of a call's results it is
        origin: of an ATen node the Dynamo node that it came from, under either of its names; of a Dynamo node its
            first name, where it was renamed after the user's variable
    """

    name: str
    op: str
    target: str
    inputs: tuple[str, ...]
    shape: tuple[int | str, ...] = ()
    dtype: str = ""
    bytes: int | None = None
    is_view: bool = False
    source: str = ""
    code: str = ""
    origin: str = ""
    item: int | None = None


@dataclass(frozen=True)
class Buffer:
    """A tensor of the generated wrapper: a graph input, an allocation or an extern call's result.

    `reuses` names the buffer whose memory it took over, which has as many bytes; `item` says which of the tensors
    that an extern call returns it is.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    bytes: int | None
    reuses: str = ""
    item: int | None = None


@dataclass(frozen=True)
class GeneratedKernel:
    """A Triton kernel that Inductor wrote: its source and what its decorator says."""

    name: str
    source: str
    category: str
    signature: dict[str, str]
    mutated: tuple[str, ...]
    configs: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True)
class Call:
    """One step of the generated wrapper: a Triton launch or an extern call.

    Args:
        kernel: the kernel's or operator's name
        is_triton: a generated kernel, else an extern call
        arguments: the argument texts of a launch, in order
        reads, writes: buffer names
        nodes: Dynamo node names it implements
        ops: ATen operators it implements
        grid, config: of a Triton launch with its first config; None where it can't be told
        read_bytes, write_bytes: of what it reads and writes of a buffer, where that may not be all of it
        chosen: buffers of which values in memory choose what is read: their bytes are bounds
    """

    kernel: str
    is_triton: bool
    arguments: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    grid: tuple[int, ...] | None = None
    config: dict[str, object] = field(default_factory=dict[str, object])
    read_bytes: dict[str, int] = field(default_factory=dict[str, int])
    write_bytes: dict[str, int] = field(default_factory=dict[str, int])
    chosen: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Unfused:
    """A pair of scheduler nodes that Inductor looked at and did not fuse.

    Args:
        a, b: the scheduler's names, such as `op0_op1`
        reason: its words for why; empty where it would have fused them
        rule: the words before their figures are put in, the same for all pairs that one rule keeps apart
        figures: what the rule was told
        groups: positions of the groups that they ended in
    """

    a: str
    b: str
    reason: str
    rule: str = ""
    figures: tuple[str, ...] = ()
    groups: tuple[int, int] = (-1, -1)


@dataclass(frozen=True)
class Accessed:
    """Bytes of each buffer that a kernel loads and stores, at most what the buffer holds.

    Args:
        loads, stores: bytes by buffer
        chosen: buffers of which values in memory choose what is touched: their bytes are bounds
        is_copy: what it stores is what it loads
    """

    loads: dict[str, int] = field(default_factory=dict[str, int])
    stores: dict[str, int] = field(default_factory=dict[str, int])
    chosen: frozenset[str] = frozenset()
    is_copy: bool = False


@dataclass(frozen=True)
class FusedGroup:
    """What Inductor's scheduler keeps together: one kernel, one extern call, or nothing that runs.

    Args:
        operations: the scheduler's names of what is in it
        buffers: what it makes, and the graph inputs that it writes into
        kind: `fused`, `template`, `extern` or `nothing`
        values: ATen nodes by name of a value in its kernel's code
        accessed: bytes that its kernel loads and stores of each buffer; None where its loops are not known
    """

    operations: tuple[str, ...]
    buffers: tuple[str, ...]
    kind: str
    values: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    accessed: Accessed | None = None


@dataclass(frozen=True)
class Choice:
    """A kernel that could do an operator's work: a library's, or a Triton template with one config.

    Args:
        name: such as `mm` or `triton_mm`
        is_template: Inductor would write it
        description: its block sizes and options
    """

    name: str
    is_template: bool
    description: str = ""


@dataclass(frozen=True)
class Undecided:
    """A choice that Inductor makes by timing the kernels on the GPU: not made here.

    Args:
        operator: Inductor's name for it, such as `mm`
        node: the ATen node
        choices: what would be timed
        taken: the name of the choice that stands in the generated code
    """

    operator: str
    node: str
    choices: tuple[Choice, ...]
    taken: str


@dataclass(frozen=True)
class CompiledRegion:
    """One graph that Dynamo cut out and Inductor compiled.

    Args:
        fx, aten: Dynamo's graph, and the ATen graph after Inductor's passes
        code: the generated wrapper with its kernels
        kernels, calls, buffers, outputs: what the wrapper holds, in its order
        groups: what the scheduler kept together, in the order of the code
        unfused: pairs of groups that it looked at and left apart
        buffer_nodes: ATen node names behind each buffer and scheduler operation
        input_sources: where each placeholder comes from, such as `L['x']`, in order
        output_nodes: the ATen node behind each output; empty for what is no tensor
        sizes: what the symbols of a dynamic shape, and the wrapper's own names for sizes, stood for in this call
        undecided: choices between kernels that only timing on the GPU makes
        graph: "inference", or "forward" or "backward" where gradients were asked for
        failure: why Inductor did not compile it; empty where it did
    """

    fx: tuple[Node, ...]
    aten: tuple[Node, ...]
    code: str
    kernels: tuple[GeneratedKernel, ...]
    calls: tuple[Call, ...]
    buffers: dict[str, Buffer]
    outputs: tuple[str, ...]
    unfused: tuple[Unfused, ...] = ()
    buffer_nodes: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    input_sources: tuple[str, ...] = ()
    graph: str = "inference"
    output_nodes: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    undecided: tuple[Undecided, ...] = ()
    groups: tuple[FusedGroup, ...] = ()
    failure: str = ""

    @property
    def first_line(self) -> str:
        """The user's file:line of its first operator; empty where unknown."""
        return next((node.source for node in self.fx if node.source), "")


@dataclass(frozen=True)
class GraphBreak:
    source: str
    reason: str


@dataclass(frozen=True)
class CompiledGraph:
    """Everything torch.compile did to one call of a function or module.

    Args:
        regions: the graphs Dynamo cut out, in order; more than one when it broke the function
        breaks: where and why it broke
        cold_s, warm_s: seconds of the first and the second call (Dynamo to generated code)
        cache: what the second call found
        structure: torch's pytree spec of what the function returns
        timeline: where the time of both calls went
        failure: what ended the call after these graphs; None where it came to its end
        guards: what must hold for the compiled code to be used again
        recompiles: which guards of earlier compilations failed, so that this one came about
    """

    regions: tuple[CompiledRegion, ...]
    breaks: tuple[GraphBreak, ...]
    cold_s: float
    warm_s: float | None
    cache: str
    structure: object = None
    timeline: Timeline = field(default_factory=Timeline)
    failure: TilesightError | None = None
    guards: tuple[str, ...] = ()
    recompiles: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Something was compiled, and nothing was left out."""
        return bool(self.regions) and not self.failures

    @property
    def failures(self) -> tuple[GraphBreak, ...]:
        """What was not compiled, each with its place and its reason in one sentence; empty where all was."""
        refused = [region for region in self.regions if region.failure]
        found = [GraphBreak(region.first_line, f"not compiled: {region.failure}") for region in refused]
        if self.failure is not None:
            more = f"; {self.failure.next_step}" if self.failure.next_step else ""
            found.append(GraphBreak(self.failure.where, f"the call ended here: {self.failure.got}{more}"))
        return tuple(found)
