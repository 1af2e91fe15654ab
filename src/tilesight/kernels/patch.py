"""The hand-written kernels in a model that exists: what they can do in its place is swapped, told, and put back.

    with patch(model) as patched:
        print(patched)
        model(tokens)

A module is swapped by its own `forward`, which leaves its parameters, hooks and name as they are. A function of a
modeling module (the turning of queries and keys, the loss) is one for every model of that module in this process, and
is told so. What a module or a function computes is tried on a few numbers first (`patch_modules`, `patch_functions`):
a name proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from types import MethodType, TracebackType
from typing import Any

import torch

from tilesight.kernels.patch_attention import ConfigSwap, attention_of
from tilesight.kernels.patch_functions import FunctionSwap, functions_of, hold, let_go
from tilesight.kernels.patch_model import Left, Swap
from tilesight.kernels.patch_modules import find_forward, is_ours

MOST_NAMES = 3
"""Places named of one kind of swap; the others are counted."""
SWAPPED = "swapped already"


class Patch:
    """What was swapped in a model; printed it says so. A context manager that undoes the swaps at its end.

    Attributes:
        swaps: what was swapped by this call, in the model's order
        left: what looked like something known and was left as it is, with the reason
        is_undone: whether the model is as it was
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model_name = type(model).__name__
        self.swaps: list[Swap] = []
        self.left: list[Left] = []
        self.is_undone = False
        self._modules: list[tuple[str, torch.nn.Module, Any]] = []
        self._functions: list[FunctionSwap] = []
        self._configs: list[ConfigSwap] = []

    def undo(self) -> None:
        """Put everything back that this call swapped; the second time nothing is left to be put back.

        Raises: RuntimeError: where a module's forward was replaced by somebody else since, which is left as it is
        """
        modules, self._modules = self._modules, []
        functions, self._functions = self._functions, []
        configs, self._configs = self._configs, []
        for each in functions:
            let_go(each)
        for config in configs:
            config.let_go()
        lost = [name for name, module, ours in modules if vars(module).get("forward") is not ours]
        for _, module, ours in modules:
            if vars(module).get("forward") is ours:
                del module.forward
        self.is_undone = True
        if lost:
            raise RuntimeError(f"forward was replaced since it was patched, and is left so: {', '.join(lost)}")

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def __len__(self) -> int:
        return len(self.swaps)

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        what = f"{len(self.swaps)} swapped" if self.swaps else "nothing to swap"
        head = f"tilesight.kernels: {what} in {self.model_name}{', undone' if self.is_undone else ''}"
        lines = [*_lines_of_swaps(self.swaps), *_lines_of_left(self.left)]
        return "\n".join([head, *(f"  {line}" for line in lines)])

    __repr__ = __str__


def patch(model: torch.nn.Module) -> Patch:
    """Swap a model's norms, gated MLPs, rotary embeddings, attention and losses for the hand-written kernels.

    Swapped are `nn.RMSNorm`, `nn.LayerNorm` and `nn.CrossEntropyLoss`; modules that compute an RMSNorm, with their
    weight or with one more than it; MLPs `down(act(gate(x)) * up(x))` with SiLU or GELU, their two projections in one
    or apart; and of the Hugging Face modeling modules that the model's classes come from `apply_rotary_pos_emb` and the
    loss. A configuration that asks for "sdpa" asks for ours. What was swapped before is left. Inputs that a kernel does
    not take (other dtypes than the weight's, say) go the module's own way, call by call.

    Args:   model: on any device; weights of any dtype, also without data
    Returns: what was swapped; `print` it, `undo()` it, or use it in a `with`
    Raises: TypeError: for what is no module
    """
    if not isinstance(model, torch.nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"patch takes a torch.nn.Module, not {type(model).__name__}")
    patched = Patch(model)
    for name, module in model.named_modules():
        _swap_module(patched, name or type(model).__name__, module)
    for found in functions_of(model):
        if isinstance(found, Left):
            patched.left.append(found)
            continue
        patched._functions.append(found)
        if hold(found):
            patched.swaps.append(found.swap)
        else:
            patched.left.append(Left(found.swap.where, SWAPPED))
    for chosen in attention_of(model):
        if isinstance(chosen, Left):
            patched.left.append(chosen)
        else:
            chosen.hold()
            patched.swaps.append(chosen.swap)
            patched._configs.append(chosen)
    return patched


def _swap_module(patched: Patch, name: str, module: torch.nn.Module) -> None:
    if is_ours(module):
        patched.left.append(Left(name, SWAPPED))
        return
    found = find_forward(name, module)
    if isinstance(found, Left):
        patched.left.append(found)
    elif found is not None:
        swap, forward = found
        ours = MethodType(forward, module)
        module.forward = ours
        patched.swaps.append(swap)
        patched._modules.append((name, module, ours))


def _lines_of_swaps(swaps: Sequence[Swap]) -> Iterator[str]:
    """`rms_norm       65  LlamaRMSNorm: model.norm, …`"""
    ordered = sorted(swaps, key=lambda each: (each.kernel, each.instead_of))
    for (kernel, instead_of), grouped in groupby(ordered, lambda each: (each.kernel, each.instead_of)):
        same = list(grouped)
        notes = dict.fromkeys(each.note for each in same if each.note)
        end = f" ({'; '.join(notes)})" if notes else ""
        yield f"{kernel:24}{len(same):4}  {instead_of}: {_names([each.where for each in same])}{end}"


def _lines_of_left(left: Sequence[Left]) -> Iterator[str]:
    for reason, grouped in groupby(sorted(left, key=lambda each: each.reason), lambda each: each.reason):
        yield f"left as it is: {_names([each.where for each in grouped])}: {reason}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
