"""Functions of Hugging Face's modeling modules that a hand-written kernel can stand in for.

A module that was never imported is not imported here: only what the model's classes come from is looked at. Such a
function is one for the whole process, so it is held by count: the last patch that lets go puts it back.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

from tilesight.kernels.cross_entropy import cross_entropy
from tilesight.kernels.operators import FLOATS
from tilesight.kernels.patch_model import Left, Swap, is_near
from tilesight.kernels.rope import rope

ROPE = "apply_rotary_pos_emb"
LOSS = "fixed_cross_entropy"
LOSS_MODULE = "transformers.loss.loss_utils"
SHARED = "for every model of that module in this process"
Function = Callable[..., Any]


@dataclass
class FunctionSwap:
    """A function of a module and what stands in for it."""

    module: ModuleType
    name: str
    original: Function
    ours: Function
    swap: Swap


@dataclass
class _Held:
    original: Function
    ours: Function
    count: int = field(default=0)


_held: dict[tuple[str, str], _Held] = {}


def hold(swap: FunctionSwap) -> bool:
    """Put ours in place, or count one more that wants it there; False where it is there already."""
    held = _held.setdefault((swap.module.__name__, swap.name), _Held(swap.original, swap.ours))
    held.count += 1
    setattr(swap.module, swap.name, held.ours)
    return held.count == 1


def let_go(swap: FunctionSwap) -> None:
    """Put the original back once nobody holds ours."""
    key = swap.module.__name__, swap.name
    held = _held[key]
    held.count -= 1
    if held.count == 0:
        del _held[key]
        if getattr(swap.module, swap.name) is held.ours:
            setattr(swap.module, swap.name, held.original)


def functions_of(model: torch.nn.Module) -> Iterator[FunctionSwap | Left]:
    """What can be swapped in the modules that the model's classes come from."""
    names = dict.fromkeys(type(module).__module__ for module in model.modules())
    for name in names:
        module = sys.modules.get(name)
        if module is not None and callable(vars(module).get(ROPE)):
            yield _of(module, ROPE, "rope", _rope_on_trial)
    if hasattr(model, "loss_function") and LOSS_MODULE in sys.modules:
        yield _of(sys.modules[LOSS_MODULE], LOSS, "cross_entropy", _loss_on_trial)


def _of(
    module: ModuleType, name: str, kernel: str, on_trial: Callable[[Function], Function | str]
) -> FunctionSwap | Left:
    where, key = f"{module.__name__}.{name}", (module.__name__, name)
    swap = Swap(kernel, where, name, SHARED)
    if key in _held:
        return FunctionSwap(module, name, _held[key].original, _held[key].ours, swap)
    original = getattr(module, name)
    ours = on_trial(original)
    return Left(where, ours) if isinstance(ours, str) else FunctionSwap(module, name, original, ours, swap)


def _rope_on_trial(original: Function) -> Function | str:
    """A function of ours for rotate-half or interleaved pairs, whichever gives the original's numbers."""
    if list(inspect.signature(original).parameters) != ["q", "k", "cos", "sin", "unsqueeze_dim"]:
        return "its arguments are not (q, k, cos, sin, unsqueeze_dim)"
    generator = torch.Generator().manual_seed(0)
    shapes = (1, 2, 3, 8), (1, 1, 3, 8), (1, 3, 8), (1, 3, 8)
    q, k, cos, sin = (torch.randn(shape, generator=generator) for shape in shapes)
    try:
        got = original(q, k, cos, sin)
    except Exception as error:
        return f"it can't be tried: {type(error).__name__}"
    for interleaved in (False, True):
        wanted = [x * cos[:, None] + _turned(x, interleaved) * sin[:, None] for x in (q, k)]
        if len(got) == 2 and all(is_near(*each) for each in zip(got, wanted, strict=True)):
            return _rotary(original, interleaved)
    return "what it computes is no rotation of whole heads"


def _turned(x: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """(a, b) → (−b, a) for each pair."""
    if interleaved:
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def _rotary(original: Function, interleaved: bool) -> Function:
    def apply_rotary_pos_emb(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> tuple[Any, Any]:
        """Queries and keys turned by `tilesight.kernels.rope`; what it does not take goes the original's way."""
        is_alike = q.dtype == k.dtype == cos.dtype == sin.dtype and q.dtype in FLOATS
        is_whole = cos.shape[-1] == q.shape[-1] == k.shape[-1] and not (cos.requires_grad or sin.requires_grad)
        if not (is_alike and is_whole):
            return original(q, k, cos, sin, unsqueeze_dim)
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return rope(q, cos, sin, interleaved), rope(k, cos, sin, interleaved)

    return apply_rotary_pos_emb


def _loss_on_trial(original: Function) -> Function | str:
    """A function of ours where the original gives the mean, or the sum over a number, of the rows that count."""
    if list(inspect.signature(original).parameters)[:4] != ["source", "target", "num_items_in_batch", "ignore_index"]:
        return "its arguments are not (source, target, num_items_in_batch, ignore_index)"
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randn(5, 7, generator=generator), torch.tensor([3, 0, -1, 6, 6])
    losses = torch.nn.functional.cross_entropy(source, target, ignore_index=-1, reduction="none")
    try:
        got = original(source, target, None, -1), original(source, target, 3, -1)
    except Exception as error:
        return f"it can't be tried: {type(error).__name__}"
    if is_near(got[0], losses.sum() / 4) and is_near(got[1], losses.sum() / 3):
        return _loss(original)
    return "what it computes is no mean of cross-entropies"


def _loss(original: Function) -> Function:
    def fixed_cross_entropy(
        source: Any, target: Any, num_items_in_batch: Any = None, ignore_index: int = -100, **named: Any
    ) -> Any:
        """The loss by `tilesight.kernels.cross_entropy`; what it does not take goes the original's way."""
        if source.dtype not in FLOATS or target.dtype != torch.int64:
            return original(source, target, num_items_in_batch, ignore_index, **named)
        reduction = "mean" if num_items_in_batch is None else "sum"
        loss = cross_entropy(source, target, ignore_index=ignore_index, reduction=reduction)
        if num_items_in_batch is None:
            return loss
        count = num_items_in_batch
        return loss / (count.to(loss.device) if isinstance(count, torch.Tensor) else count)

    return fixed_cross_entropy
