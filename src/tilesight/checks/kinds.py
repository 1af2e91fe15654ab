"""The kinds of fault that the sanitizer knows, each with one sentence."""

from __future__ import annotations

KINDS: dict[str, str] = {
    "out-of-bounds": "lanes touch memory outside the tensor that their pointer derives from",
    "unmasked-undefined": "masked-off lanes of a load without `other` reach a store, a reduction or a branch",
    "uninitialised-read": "elements are read that nothing has written",
    "never-written": "elements of an output that no program stored",
    "race": "two programs, or two threads of one, touch one element, at least one writes, and nothing orders them",
    "overflow": "int32 arithmetic of an offset wraps around",
    "nan-origin": "a NaN or an infinity is made from finite numbers",
    "precision": "numbers are accumulated or multiplied in a narrower type than their inputs deserve",
    "non-determinism": "the result depends on the order in which programs run",
    "grid": "the grid has too few or too many programs for the tensors",
    "stride": "the kernel takes a tensor to be contiguous that is not",
    "alias": "input and output overlap, and the result depends on it",
    "autotune": "a kernel that is timed by autotune accumulates into its output",
    "unlaunchable": "the engine runs it, the GPU refuses it",
    "all-masked-row": "a row without valid lanes gives NaN, or padded lanes enter a reduction",
    "contract": "work for nothing: a mask that is always true, a load repeated, a store overwritten unread",
}
"""Slug → what is wrong; the order is that of the documentation."""
