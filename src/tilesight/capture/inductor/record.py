"""What one compilation hands over on its way through Dynamo and Inductor."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tilesight.capture.inductor.fusion import Heard, read_groups, read_unfused
from tilesight.capture.inductor.graph import CompiledRegion, FusedGroup, GraphBreak, Node, Undecided, Unfused
from tilesight.capture.inductor.guards import break_reason
from tilesight.capture.inductor.nodes import is_library_file, output_nodes, read_nodes
from tilesight.capture.inductor.wrapper import read_wrapper


@dataclass
class Recorded:
    """What one compilation handed over; `graph` is inference, forward or backward."""

    fx: tuple[Node, ...] = ()
    graph_break: GraphBreak | None = None
    aten: tuple[Node, ...] = ()
    code: str = ""
    unfused: list[Unfused] = field(default_factory=list[Unfused])
    buffer_nodes: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    input_sources: tuple[str, ...] = ()
    graph: str = "inference"
    output_nodes: tuple[str, ...] = ()
    undecided: list[Undecided] = field(default_factory=list[Undecided])
    groups: tuple[FusedGroup, ...] = ()
    failure: str = ""

    def keep(self, lowering: Any, heard: Heard) -> None:
        """Generate the code of a GraphLowering, and keep it with the graph it came from and what was heard."""
        self.keep_code(lowering, lowering.codegen()[0], heard)
        module: Any = import_module("torch._inductor.graph")
        module.output_code_log.debug("Output code: \n%s", self.code)  # what TORCH_LOGS=output_code prints

    def keep_code(self, lowering: Any, code: Any, heard: Heard) -> None:
        """Keep the code that a GraphLowering has generated, the graph it came from and what was heard."""
        self.code = str(getattr(code, "value", code))
        self.graph = _kind_of_graph(lowering)
        graph = lowering.graph if hasattr(lowering, "graph") else lowering.module.graph
        self.aten = read_nodes(graph)
        self.output_nodes = output_nodes(graph)
        self.buffer_nodes = _origins(lowering.scheduler)
        self.groups = read_groups(lowering, heard.lines)
        self.unfused = read_unfused(heard, self.groups)


def region_of(recorded: Recorded) -> CompiledRegion:
    """The record as capture hands it on, with the generated wrapper read."""
    if not recorded.code:  # nothing to compile, or Inductor refused
        sources, failure = recorded.input_sources, recorded.failure
        return CompiledRegion(recorded.fx, (), "", (), (), {}, (), input_sources=sources, failure=failure)
    kernels, calls, buffers, outputs, sizes = read_wrapper(recorded.code)
    return CompiledRegion(
        fx=recorded.fx,
        aten=recorded.aten,
        code=recorded.code,
        kernels=kernels,
        calls=calls,
        buffers=buffers,
        outputs=outputs,
        unfused=tuple(recorded.unfused),
        buffer_nodes=recorded.buffer_nodes,
        input_sources=recorded.input_sources,
        graph=recorded.graph,
        output_nodes=recorded.output_nodes,
        sizes=sizes,
        undecided=tuple(recorded.undecided),
        groups=recorded.groups,
        failure=recorded.failure,
    )


def _kind_of_graph(lowering: Any) -> str:
    if lowering.is_inference:
        return "inference"
    return "backward" if lowering.is_backward else "forward"


def _origins(scheduler: Any) -> dict[str, tuple[str, ...]]:
    """ATen node names behind each scheduler node, by its buffer or operation name."""
    origins: dict[str, tuple[str, ...]] = {}
    for node in getattr(scheduler, "nodes", ()):
        for part in node.get_nodes():
            names = tuple(origin.name for origin in getattr(part.node, "origins", ()) or ())
            for name in {part.get_name(), *part.get_buffer_names()}:
                origins[name] = names
    return origins


def graph_break(graph_module: Any) -> GraphBreak | None:
    """Why Dynamo ended this graph, when it was not the end of the function."""
    reason = getattr(graph_module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    frames = [frame for frame in reason.user_stack or () if not is_library_file(frame.filename)]
    source = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return GraphBreak(source, break_reason(str(reason.reason)))
