"""A back end of torch.compile: Inductor, with the hand-written kernels where they measured faster.

    torch.compile(model, backend="tilesight")
    torch.compile(model, backend=Backend("bench.sqlite"))

Nothing is timed while compiling. What decides is what `tilesight bench` measured on this device with these versions,
at this shape and dtype; what it has not measured stays Inductor's and is noted in the store, and `tilesight bench
--wanted` measures it. A group is measured alone: what Inductor would fuse into it from its neighbours is not in its
time.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from tilesight.bench.choices import Choice, Choices
from tilesight.bench.environment import environment_of
from tilesight.bench.groups import Group, find_groups
from tilesight.bench.providers import COMPILED
from tilesight.bench.store import STORE, want
from tilesight.capture.inductor.inner import compile_by_inductor
from tilesight.capture.tensors import dtype_name
from tilesight.errors import InputError

Inner = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


class Backend:
    """Give it to `torch.compile(backend=…)`; `print` it to see what was chosen, and why.

    Args:
        store: what `tilesight bench --store` wrote; one that is missing decides nothing
        mode: of torch.compile, for what stays Inductor's; max-autotune is held against its own times
        inner: compiles the graph in the end; None: Inductor
        is_noting: write what is not measured into the store
    """

    def __init__(
        self,
        store: str | os.PathLike[str] = STORE,
        mode: str | None = None,
        inner: Inner | None = None,
        *,
        is_noting: bool = True,
    ) -> None:
        self.store = Path(store)
        self.mode = mode
        self.inner: Inner = inner or (lambda graph, inputs: compile_by_inductor(graph, inputs, mode))
        self.is_noting = is_noting
        self.chosen: list[Choice] = []

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Any:
        """Called by Dynamo, once a graph."""
        groups = list(find_groups(graph_module.graph))
        chosen = [self._choose(group) for group in groups]
        for group, choice in zip(groups, chosen, strict=True):
            if choice.winner == "hand":
                _replace(graph_module.graph, group)
        graph_module.recompile()
        self.chosen += chosen
        self._note([choice for choice in chosen if not choice.is_measured], groups)
        return self.inner(graph_module, example_inputs)

    def _choose(self, group: Group) -> Choice:
        provider = next(
            (name for name, mode in COMPILED.items() if mode and self.mode and mode in self.mode), "compiled"
        )
        choices = _choices(self.store, _stamp(self.store), group.value.device.type, provider)
        return choices.choose(group.keys(), dtype_name(group.value.dtype))

    def _note(self, missing: Sequence[Choice], groups: Sequence[Group]) -> None:
        if missing and self.is_noting:
            device = environment_of(groups[0].value.device.type, "").device
            try:
                want(self.store, device, [(*key, choice.dtype) for choice in missing for key in choice.keys])
            except InputError as error:
                warnings.warn(f"what is not measured was not noted: {error}", stacklevel=2)

    def __str__(self) -> str:
        ours = sum(choice.winner == "hand" for choice in self.chosen)
        head = f"tilesight: {ours} of {len(self.chosen)} groups by hand-written kernels"
        missing = sum(not choice.is_measured for choice in self.chosen)
        end = [f"  {missing} not measured here: tilesight bench --wanted --store {self.store}"] if missing else []
        return "\n".join([head, *(f"  {choice}" for choice in self.chosen), *end])

    __repr__ = __str__


@cache
def _choices(store: Path, stamp: int, device: str, provider: str) -> Choices:
    """Read once for each state of the file."""
    return Choices(store, device, provider)


def _stamp(store: Path) -> int:
    return store.stat().st_mtime_ns if store.is_file() else 0


def _replace(graph: torch.fx.Graph, group: Group) -> None:
    """The call in the place of the group's last node; what only the group read is gone."""
    node = group.node
    with graph.inserting_before(node):
        call = graph.call_function(group.kernel, group.args, group.named)
    call.meta = dict(node.meta)
    node.replace_all_uses_with(call)
    unused = [node]
    while unused:
        each = unused.pop()
        if not each.users and each.op not in ("placeholder", "output"):
            before = list(each.all_input_nodes)
            graph.erase_node(each)
            unused += [other for other in before if other not in unused]


def tilesight(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
    """`torch.compile(backend="tilesight")`: with the store that `tilesight bench` writes where it is started."""
    return Backend()(graph_module, example_inputs, **options)
