"""Why FlagGems' outcomes are wrong or refused, found by reading its kernels beside torch's definition.

Operators that are not here are left with the bare error: nobody has traced it yet.
"""

from __future__ import annotations

WITHOUT_DIMENSIONS = "the function takes no tensor without dimensions"
OTHER_FORMS = "torch's other forms of the arguments are not taken"

WRONG = {
    "_upsample_nearest_exact1d": "the kernel takes source ⌊i·in/out⌋ as `nearest` does, not ⌊(i+½)·in/out⌋",
    "addmv.out": "torch truncates a fractional alpha and beta for integers, the kernel multiplies by them",
    "gather": "the kernel is given a view with the index's shape and reads past it in the same storage, which the"
    " engine counts as out of bounds",
    "native_group_norm": "the mask compares channels with C, not with the group's end: a group whose size is no"
    " power of two takes in its neighbour's",
    "index_add_": "the source's offset, strides counted, is taken for the input's index: right for a contiguous source",
    "native_group_norm_backward": "the mask compares channels with C, not with the group's end",
    "soft_margin_loss": "log(1 + e^-|z|) instead of log1p loses small losses",
    "unfold_backward": "the kernel reads the incoming gradient as if it were contiguous",
}
"""Outputs that were compared and differ."""

REFUSED = {
    "all.dim": WITHOUT_DIMENSIONS,
    "any.dim": WITHOUT_DIMENSIONS,
    "count_nonzero": WITHOUT_DIMENSIONS,
    "index_add": WITHOUT_DIMENSIONS,
    "index_add_": WITHOUT_DIMENSIONS,
    "index_select": WITHOUT_DIMENSIONS,
    "sum.IntList_out": OTHER_FORMS,
    "topk": "integer rows are padded with nothing, the padding's value being defined for floats only: an index past the"
    " row's end comes out",
    "unfold_backward": WITHOUT_DIMENSIONS,
    "var": OTHER_FORMS,
    "var.dim": OTHER_FORMS,
}
"""Calls that raised an error."""
