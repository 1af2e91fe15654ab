"""How labels move through operations that move, choose or combine lanes; labels are those of `program_trace`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.program_trace import Labels, Step
from tilesight.engine.registry import find_rule
from tilesight.engine.values import Pointer, rank_of, spread
from tilesight.ir.module import Operation, Value
from tilesight.ir.types import block_shape

Mask = NDArray[np.bool_]

MOVES = frozenset(
    {
        "tt.broadcast",
        "tt.cat",
        "tt.expand_dims",
        "tt.join",
        "tt.reshape",
        "tt.split",
        "tt.splat",
        "tt.trans",
        "tt.unsplat",
    }
)
ALONG_AXIS = frozenset({"tt.reduce", "tt.scan"})
WHOLE = frozenset({"tt.dot_scaled", "tt.histogram", "tt.map_elementwise"})
"""Operations of which any labelled lane labels every lane of the result."""

SILENT = frozenset({"tt.print", "tt.assert", "cf.assert", "llvm.intr.assume"})


def spread_labels(labels: Labels | None, rank: int) -> Labels:
    """Labels as an array of that rank; 0 where there are none."""
    if labels is None:
        return np.zeros((1,) * rank, np.int16)
    return labels.reshape(labels.shape[0], *(1,) * (rank - labels.ndim), *labels.shape[1:])


def full_labels(labels: Labels | None, value: Value) -> Labels:
    """[1, *B] labels of every lane of a block."""
    shape = block_shape(value.type)
    return np.broadcast_to(spread_labels(labels, 1 + len(shape)), (1, *shape))


def full_value(operand: Any, value: Value) -> NDArray[Any]:
    """[1, *B] of an operand, pointers as their addresses."""
    plain = spread(operand.address if isinstance(operand, Pointer) else operand)
    return np.broadcast_to(plain, (1, *block_shape(value.type)))


def move_lanes(step: Step) -> tuple[Labels, ...]:
    """Labels moved as the operation moves lanes: by the engine's own rule."""
    operation = step.operation
    ranks = (1 + len(block_shape(value.type)) for value in operation.operands)
    labels = [spread_labels(each, rank) for each, rank in zip(step.labels, ranks, strict=True)]
    rule = find_rule(operation)
    context = (cast("Any", None), operation) if rule.takes_frame else ()
    moved: Any = rule.function(*context, *labels)
    return cast("tuple[Labels, ...]", moved if isinstance(moved, tuple) else (moved,))


def gather_lanes(step: Step) -> Labels:
    """The labels of tt.gather's source at its indices, and those of the indices."""
    source, index = step.operation.operands
    axis = step.operation.attributes["axis"]
    assert isinstance(axis, int)
    where = full_value(step.operands[1], index).astype(np.int64)
    moved = np.take_along_axis(full_labels(step.labels[0], source), where, axis + 1)
    return np.maximum(moved, full_labels(step.labels[1], index))


def select_lanes(step: Step) -> Labels:
    """The labels of the side that each lane takes; those of the condition are left out."""
    condition, chosen, other = step.operands
    rank = max(rank_of(chosen), rank_of(other))
    taken = condition.reshape(condition.shape[0], *(1,) * (rank - condition.ndim), *condition.shape[1:])
    return np.where(taken, spread_labels(step.labels[1], rank), spread_labels(step.labels[2], rank))


def join_lanes(step: Step) -> Labels:
    """The largest label of each lane's operands."""
    rank = max(rank_of(operand) for operand in step.operands)
    joined = spread_labels(None, rank)
    for each in step.labels:
        if each is not None:
            joined = np.maximum(joined, spread_labels(each, rank))
    return joined


def join_everything(step: Step) -> list[Labels]:
    """For operations that mix lanes in ways of their own: the largest label of all lanes, in every lane.

    Of a histogram with a mask, of the lanes that are counted.
    """
    labels = list(step.labels)
    if step.operation.name == "tt.histogram" and len(step.operands) > 1:
        counted = full_value(step.operands[1], step.operation.operands[1])
        labels[0] = np.where(counted, full_labels(labels[0], step.operation.operands[0]), np.int16(0))
    most = max(int(each.max()) for each in labels if each is not None)
    ranks = (1 + len(block_shape(value.type)) for value in step.operation.results)
    return [np.full((1,) * rank, most, np.int16) for rank in ranks]


def axis_of(operation: Operation) -> int:
    """A reduction's axis, the program axis counted."""
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    return axis + 1


def labels_along(step: Step) -> Labels:
    """[1, *B] the largest label of each lane over a reduction's operands."""
    joined = full_labels(step.labels[0], step.operation.operands[0])
    for each, value in zip(step.labels[1:], step.operation.operands[1:], strict=True):
        joined = np.maximum(joined, full_labels(each, value))
    return joined


def running_maximum(labels: Labels, operation: Operation) -> Labels:
    """The largest label up to each lane of a scan."""
    axis = axis_of(operation)
    if operation.attributes.get("reverse"):
        return np.flip(np.maximum.accumulate(np.flip(labels, axis), axis), axis)
    return np.maximum.accumulate(labels, axis)


def operand_of(step: Step, segment: str) -> tuple[Any, Labels | None]:
    """An optional operand and its labels; None twice where the operation has none."""
    values = step.operation.operand_segments.get(segment, ())
    if not values:
        return None, None
    position = step.operation.operands.index(values[0])
    return step.operands[position], step.labels[position]


def active_lanes(step: Step) -> Mask:
    """[1, *B] the lanes that access memory, as the listeners of the step's accesses were told."""
    shape = step.accesses[0].shape if step.accesses else (1,)
    active = np.zeros(shape, np.bool_)
    for access in step.accesses:
        active |= True if access.mask is None else access.mask
    return active


def lanes_of(labels: Mask | Labels) -> NDArray[np.int64]:
    """Flat lanes of one program that are labelled."""
    return np.flatnonzero(labels.reshape(-1))


def ends_of(lanes: NDArray[np.int64] | Sequence[int]) -> tuple[int, int]:
    """The first and the last lane."""
    return (int(lanes[0]), int(lanes[-1])) if len(lanes) else (0, 0)


def numbers_in(labels: Labels) -> list[int]:
    """The labels that occur, in ascending order, 0 left out."""
    return [int(number) for number in np.unique(labels) if number]


def all_labelled(labels: Labels, axis: int) -> Mask:
    """Whether every lane along an axis has a label, without that axis."""
    return np.asarray((labels > 0).all(axis=axis), np.bool_)
