"""Kernels that a GPU's clock would choose under max-autotune: the choices, and what stands in for the winner.

Inductor lists an operator's candidates (its library call, and a Triton template with each of its configs), compiles
and times them all, and takes the fastest. Without the GPU the list is the same and nothing is timed: the first library
call is taken, as Inductor takes it where no timing succeeds, and the choice is told as not decided. Whether a
template would take in its neighbours is decided by timing too, so templates are not kept open for that. The same
holds for padding a product's sizes to an alignment, in every mode.
Seen to work on torch 2.11.0, 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Generator, Sequence
from importlib import import_module
from typing import Any
from unittest.mock import patch

from tilesight.capture.inductor.graph import Choice, Undecided

PADDING = "padding"
"""The operator of a choice whether to pad a product's sizes."""
AS_IT_IS_OR_PADDED = (Choice("sizes as they are", is_template=False), Choice("sizes padded", is_template=False))


@contextlib.contextmanager
def nothing_timed(heard: list[Undecided]) -> Generator[None]:
    """While it lasts, Inductor chooses between kernels without running them; each such choice is noted."""
    algorithms: Any = import_module("torch._inductor.select_algorithm")
    inductor: Any = import_module("torch._inductor.config")
    selector = algorithms.AlgorithmSelectorCache
    signature = inspect.signature(selector.do_autotuning)

    def do_autotuning(*args: Any, **kwargs: Any) -> dict[Any, float]:
        given = signature.bind(*args, **kwargs).arguments
        choices = given["choices"]
        taken = _first_library_call(choices)
        heard.append(_undecided(given["name"], choices, taken))
        return {taken: 0.0, **{choice: 1.0 for choice in choices if choice is not taken}}

    with (
        patch.object(selector, "do_autotuning", do_autotuning),
        patch.object(selector, "make_precompile_fn", lambda *_, **__: dict),
        inductor.patch(benchmark_epilogue_fusion=False, autotune_in_subproc=False),
        _padding_not_timed(heard),
    ):
        yield


@contextlib.contextmanager
def _padding_not_timed(heard: list[Undecided]) -> Generator[None]:
    """Whether a product's sizes are padded to an alignment: where torch would time both ways, they stay."""
    pad_mm: Any = import_module("torch._inductor.fx_passes.pad_mm")
    make_key = pad_mm.should_pad_bench_key
    asked: list[Any] = []

    def should_pad_bench_key(match: Any, *args: Any, **kwargs: Any) -> Any:
        asked[:] = [match]
        return make_key(match, *args, **kwargs)

    def get_cached_should_pad(key: Any) -> bool:
        """Asked when all other reasons are spent; what it answers is not timed."""
        undecided = Undecided(PADDING, asked[0].output_node().name, AS_IT_IS_OR_PADDED, AS_IT_IS_OR_PADDED[0].name)
        if undecided not in heard:
            heard.append(undecided)
        return False

    with (
        patch.object(pad_mm, "should_pad_bench_key", should_pad_bench_key),
        patch.object(pad_mm, "get_cached_should_pad", get_cached_should_pad),
    ):
        yield


def _undecided(operator: str, choices: Sequence[Any], taken: Any) -> Undecided:
    graph: Any = import_module("torch._inductor.virtualized").V.graph
    node = getattr(getattr(graph, "current_node", None), "name", "")
    return Undecided(operator, node, tuple(choice_of(each) for each in choices), choice_of(taken).name)


def choice_of(choice: Any) -> Choice:
    """One of Inductor's candidates as a record; a template's number in the process is left out."""
    is_template = not _is_library_call(choice)
    name = str(choice.name)
    if is_template:
        name = name.rstrip("0123456789").rstrip("_")
    return Choice(name, is_template, str(getattr(choice, "description", "")) if is_template else "")


def _first_library_call(choices: Sequence[Any]) -> Any:
    return next((choice for choice in choices if _is_library_call(choice)), choices[0])


def _is_library_call(choice: Any) -> bool:
    return isinstance(choice, import_module("torch._inductor.select_algorithm").ExternKernelCaller)
