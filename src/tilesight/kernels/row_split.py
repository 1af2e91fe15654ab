"""One row shared by several programs: each reduces its part and hands one number to the others.

A row that does not fit a program's registers is usually read twice. Here every program keeps its part on chip, writes
what it has reduced into a word of its own, waits until the words of its siblings are there, and goes on: each element
crosses HBM once. A word holds a float32 and the number of the launch's turn, so that it is written and seen in one
piece, nothing has to be cleared between launches, and no fence holds back the stores before it.

Programs are waited for that may not run yet. GPUs start programs in the order of their ids, siblings have neighbouring
ids, and no program waits for one of another row: the first row whose programs are not all over has its siblings on the
GPU, or starting. `MOST_PARTS` is below the number of programs that any supported GPU holds at once.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

MOST_PARTS = 64
HINT = tl.constexpr("evict_first")
"""For what is read or written once."""
KEPT = tl.constexpr("evict_last")
"""For what is read again soon."""

_scratch: dict[tuple[torch.device, int, int, int, bool], torch.Tensor] = {}


@triton.jit
def widened(x):
    """What is computed in: float32, float64 for float64."""
    return x if x.dtype == tl.float64 else x.to(tl.float32)


@triton.jit
def turn_of(slot_ptr):
    """The number of the turn that a program's own word was last written in.

    A plain load, under way together with the program's others: nobody else writes the word, and its own program does so
    behind a reduction, which all of its threads reach with the word in hand. Past the cache of the multiprocessor.
    """
    return tl.load(slot_ptr, volatile=True) & 0xFFFFFFFF


@triton.jit
def share(slots_ptr, part, value, turn, PARTS: tl.constexpr) -> tl.tensor:
    """Hand a number to the siblings and wait for theirs.

    Every sibling gets the same numbers in the same order, so what they compute from them is the same as well.

    Args:
        slots_ptr: int64 [PARTS], this row's words
        part: which of them is this program's
        value: float32
        turn: int64, one more than `turn_of` its own word
    Returns: float32 [PARTS]
    """
    tl.atomic_xchg(slots_ptr + part, (_bits(value) << 32) | (turn & 0xFFFFFFFF), sem="relaxed")
    return _number(_awaited(slots_ptr, turn, 0xFFFFFFFF, PARTS) >> 32)


@triton.jit
def share_pair(slots_ptr, part, value, narrow, turn, PARTS: tl.constexpr) -> Any:
    """Hand two numbers to the siblings in one word, and wait for theirs; the turn has what is left, two bits.

    Args:
        slots_ptr: int64 [PARTS], this row's words, of no other use than this one
        value: float32
        narrow: float32 whose two lowest bits are given away: nothing of what a 16-bit format holds
        turn: int64, one more than `turn_of` its own word
    Returns: both, float32 [PARTS]
    """
    tl.atomic_xchg(slots_ptr + part, (_bits(value) << 32) | (_bits(narrow) & 0xFFFFFFFC) | (turn & 3), sem="relaxed")
    seen = _awaited(slots_ptr, turn, 3, PARTS)
    return _number(seen >> 32), _number(seen & 0xFFFFFFFC)


@triton.jit
def _bits(number):
    return number.to(tl.int32, bitcast=True).to(tl.int64)


@triton.jit
def _number(bits):
    return bits.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _awaited(slots_ptr, turn, TURN_BITS: tl.constexpr, PARTS: tl.constexpr):
    """The siblings' words, once all are of this turn.

    They are polled by atomics, whose result is the same in all threads: threads that load a word on their own may leave
    the loop in different rounds.
    """
    slots = slots_ptr + tl.arange(0, PARTS)
    nothing = tl.zeros((PARTS,), tl.int64)
    seen = tl.atomic_or(slots, nothing, sem="relaxed")
    while tl.sum(((seen & TURN_BITS) != (turn & TURN_BITS)).to(tl.int32)) > 0:
        seen = tl.atomic_or(slots, nothing, sem="relaxed")
    return seen


def words_for(like: torch.Tensor, rows: int, words: int, sides: int = 1, are_pairs: bool = False) -> torch.Tensor:
    """Zeroed once and then kept: int64 [at least rows · words], for each device, stream and layout of a row's words.

    Words of one side of a row are written together in every launch, so their turns agree whatever was launched before;
    one side may stay ahead of another. A CUDA graph gets words of its own, for it may run beside the stream that it
    was captured on.

    Args:
        like: a tensor on the device
        words: of a row
        sides: of equal size, that a row's words are divided into
        are_pairs: the words are of `share_pair`
    """
    size = triton.next_power_of_2(max(1, rows)) * words
    if like.is_cuda and torch.cuda.is_current_stream_capturing():
        return torch.zeros(size, dtype=torch.int64, device=like.device)
    stream = torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else 0
    key = (like.device, stream, words, sides, are_pairs)
    held = _scratch.get(key)
    if held is None or held.numel() < rows * words:
        held = _scratch[key] = torch.zeros(size, dtype=torch.int64, device=like.device)
    return held
