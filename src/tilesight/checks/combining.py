"""What a combining operation makes with its padded lanes and without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.lane_labels import axis_of, full_labels, full_value, join_lanes, spread_labels
from tilesight.checks.program_trace import Labels, Step
from tilesight.engine.plan import Plan
from tilesight.engine.rules.tt_reduce import single_combiner
from tilesight.ir.module import Operation, Value
from tilesight.ir.types import block_shape

Mask = NDArray[np.bool_]
IsPadded = Callable[[Labels], Mask]

COMBINERS: dict[str, tuple[Any, str]] = {
    "arith.addf": (np.add, "zero"),
    "arith.addi": (np.add, "zero"),
    "arith.mulf": (np.multiply, "one"),
    "arith.muli": (np.multiply, "one"),
    "arith.maxnumf": (np.fmax, "lowest"),
    "arith.maximumf": (np.maximum, "lowest"),
    "arith.maxsi": (np.maximum, "lowest"),
    "arith.minnumf": (np.fmin, "highest"),
    "arith.minimumf": (np.minimum, "highest"),
    "arith.minsi": (np.minimum, "highest"),
}
NEGLIGIBLE = 1e-6
"""Part of the sum of magnitudes below which a difference is rounding."""

DATA = 1


@dataclass(frozen=True, eq=False)
class Combined:
    """A combining operation's result.

    Args:
        labels: what the result is but for a change: padded where every lane was, otherwise data
        changed: lanes of the result that padded lanes change; None for none
        repaired: the results without padded lanes, in f64 or int64
        padded: [1, *B] labels of the padded lanes of the operand, 0 elsewhere
        values: [1, *B] what the operand holds
    """

    labels: Labels
    changed: Mask | None
    repaired: tuple[NDArray[Any], ...]
    padded: Labels
    values: NDArray[Any]


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.int64 if values.dtype.kind in "bi" else np.float64)


def _neutral(kind: str, dtype: np.dtype[Any]) -> float | int:
    if kind in ("zero", "one"):
        return int(kind == "one")
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return int(limits.min if kind == "lowest" else limits.max)
    return -np.inf if kind == "lowest" else np.inf


def _labels_of_result(labels: Labels, padded: Mask, axis: int, changed_before: Labels) -> Labels:
    """Padded where every lane was; a change among the operands' lanes stays a change."""
    every = np.where(padded.all(axis=axis), labels.max(axis=axis), np.int16(DATA))
    return np.maximum(every, changed_before)


def _changed_labels(labels: Labels, padded: Mask) -> Labels:
    """The labels of lanes that an earlier reduction changed."""
    return np.where(padded | (labels <= DATA), np.int16(0), labels)


def _are_apart(a: NDArray[Any], b: NDArray[Any], scale: NDArray[Any]) -> Mask:
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b) > NEGLIGIBLE * np.where(np.isfinite(scale), scale, 0)
    return (apart & ~np.isnan(b)) | (np.isnan(a) & ~np.isnan(b))


def combine_lanes(step: Step, is_padded: IsPadded) -> Combined:
    """tt.reduce of one operand; with a combiner of the author's own nothing is said to change."""
    operand, axis = step.operation.operands[0], axis_of(step.operation)
    labels, values = full_labels(step.labels[0], operand), full_value(step.operands[0], operand)
    padded = is_padded(labels)
    before = _changed_labels(labels, padded).max(axis=axis)
    out = _labels_of_result(labels, padded, axis, before)
    combiner = COMBINERS.get(single_combiner(step.operation))
    if combiner is None:
        return Combined(out, None, (), _only(labels, padded), values)
    function, kind = combiner
    wide = _wide(values)
    kept = np.where(padded, _neutral(kind, wide.dtype), wide)
    full, repaired = function.reduce(wide, axis=axis), function.reduce(kept, axis=axis)
    scale = np.abs(wide).sum(axis=axis) if kind == "zero" else np.maximum(np.abs(full), np.abs(repaired))
    mixed = padded.any(axis=axis) & ~padded.all(axis=axis)
    return Combined(out, mixed & _are_apart(full, repaired, scale), (repaired,), _only(labels, padded), values)


def pick_lanes(step: Step, is_padded: IsPadded) -> Combined:
    """tt.reduce of values with their indices: changed where the winner is a padded lane."""
    operation, axis = step.operation, axis_of(step.operation)
    value, index = operation.operands[:2]
    labels, values = full_labels(step.labels[0], value), full_value(step.operands[0], value)
    padded = is_padded(labels)
    out = _labels_of_result(labels, padded, axis, _changed_labels(labels, padded).max(axis=axis))
    positions = full_value(step.operands[1], index)
    if len(operation.operands) != 2 or positions.dtype.kind != "i":
        return Combined(out, None, (), _only(labels, padded), values)
    found, wide = _wide(step.results[0]), _wide(values)
    winners = positions == np.expand_dims(step.results[1], axis)
    is_largest = bool((found == wide.max(axis=axis)).all())
    if not is_largest and not bool((found == wide.min(axis=axis)).all()):
        return Combined(out, None, (), _only(labels, padded), values)
    kept = np.where(padded, _neutral("lowest" if is_largest else "highest", wide.dtype), wide)
    at = np.expand_dims((np.argmax if is_largest else np.argmin)(kept, axis=axis), axis)
    repaired = tuple(np.take_along_axis(array, at, axis).squeeze(axis) for array in (wide, _wide(positions)))
    changed = (winners & padded).any(axis=axis) & ~padded.all(axis=axis)
    return Combined(out, changed, repaired, _only(labels, padded), values)


def running_sum(step: Step, is_padded: IsPadded) -> Combined:
    """tt.scan of one operand: lanes that come after a padded one."""
    operand, axis = step.operation.operands[0], axis_of(step.operation)
    labels, values = full_labels(step.labels[0], operand), full_value(step.operands[0], operand)
    padded = is_padded(labels)
    out = np.where(padded, labels, np.maximum(np.int16(DATA), labels))
    combiner = COMBINERS.get(single_combiner(step.operation)) if len(step.operands) == 1 else None
    if combiner is None:
        return Combined(out, None, (), _only(labels, padded), values)
    function, kind = combiner
    wide = _wide(values)
    kept = np.where(padded, _neutral(kind, wide.dtype), wide)
    reverse = bool(step.operation.attributes.get("reverse"))

    def run(array: NDArray[Any]) -> NDArray[Any]:
        return (
            np.flip(function.accumulate(np.flip(array, axis), axis), axis)
            if reverse
            else function.accumulate(array, axis)
        )

    full, repaired = run(wide), run(kept)
    magnitude = np.maximum(np.abs(full), np.abs(repaired))
    return Combined(out, ~padded & _are_apart(full, repaired, magnitude), (repaired,), _only(labels, padded), values)


def multiply_lanes(step: Step, is_padded: IsPadded) -> Combined:
    """tt.dot: padded lanes of the inner axis, where their product with the other operand is not 0."""
    operands = step.operation.operands
    left, right = (full_labels(step.labels[i], operands[i]) for i in (0, 1))
    a, b = (full_value(step.operands[i], operands[i]).astype(np.float64) for i in (0, 1))
    pad_left, pad_right = is_padded(left), is_padded(right)
    kept_a, kept_b = np.where(pad_left, 0, a), np.where(pad_right, 0, b)
    valid = np.matmul(~pad_left, ~pad_right)
    full, kept = np.matmul(a, b), np.matmul(kept_a, kept_b)
    scale = np.matmul(np.abs(a), np.abs(b))
    addend = spread_labels(step.labels[2], valid.ndim)
    rows = np.maximum(left.max(axis=-1)[..., :, None], right.max(axis=-2)[..., None, :])
    earlier = np.maximum(
        _changed_labels(left, pad_left).max(axis=-1)[..., :, None],
        _changed_labels(right, pad_right).max(axis=-2)[..., None, :],
    )
    out = np.maximum(
        np.where(valid, np.int16(DATA), rows), np.maximum(earlier, _changed_labels(addend, is_padded(addend)))
    )
    repaired = kept + np.broadcast_to(step.operands[2], valid.shape).astype(np.float64)
    padded, values = (_only(left, pad_left), a) if pad_left.any() else (_only(right, pad_right), b)
    return Combined(out, valid & _are_apart(full, kept, scale), (repaired,), padded, values)


def count_lanes(step: Step, is_padded: IsPadded) -> Combined:
    """tt.histogram: padded lanes that are counted."""
    (bins,) = block_shape(step.operation.results[0].type)
    operand = step.operation.operands[0]
    labels, values = full_labels(step.labels[0], operand), full_value(step.operands[0], operand)
    padded = is_padded(labels)
    counted = padded & (values >= 0) & (values < bins)
    if len(step.operands) > 1:
        counted = counted & np.broadcast_to(step.operands[1], counted.shape)
    extra = np.bincount(values[counted].astype(np.int64), minlength=bins)[None]
    out = np.full((1, bins), DATA, np.int16)
    return Combined(out, (extra > 0) & (not padded.all()), (step.results[0] - extra,), _only(labels, padded), values)


def accumulates(step: Step, is_padded: IsPadded, plan: Plan) -> Combined | None:
    """A loop's running sum, product, maximum or minimum that meets padded lanes; None for anything else."""
    operation = step.operation
    combiner = COMBINERS.get(operation.name)
    if combiner is None or not any(each is not None and is_padded(each).any() for each in step.labels):
        return None
    position = _running_operand(operation, plan)
    if position is None:
        return None
    function, kind = combiner
    running, added = (full_labels(step.labels[i], operation.operands[i]) for i in (position, 1 - position))
    old, new = (full_value(step.operands[i], operation.operands[i]) for i in (position, 1 - position))
    padded = is_padded(added) & (running == DATA)
    wide = _wide(old)
    full = function(wide, _wide(new))
    repaired = function(wide, _neutral(kind, wide.dtype))
    scale = np.maximum(np.abs(wide), np.abs(_wide(new)))
    out = np.where(padded, running, join_lanes(step))
    return Combined(out, padded & _are_apart(full, repaired, scale), (repaired,), _only(added, padded), new)


def _running_operand(operation: Operation, plan: Plan) -> int | None:
    """Which operand is the running value of the loop whose body yields the operation's result."""
    (result,) = operation.results
    for loop in plan.definitions.values():
        if loop.name != "scf.for":
            continue
        body = loop.regions[0].entry
        yielded = body.operations[-1].operands
        if result in yielded:
            carried = body.arguments[1 + yielded.index(result)]
            for position, value in enumerate(operation.operands):
                if _is_scaled(value, carried, plan.definitions):
                    return position
    return None


def _is_scaled(value: Value, carried: Value, definitions: dict[Value, Operation]) -> bool:
    """Whether a value is the carried one, or its product with something."""
    if value is carried:
        return True
    operation = definitions.get(value)
    return operation is not None and operation.name == "arith.mulf" and carried in operation.operands


def _only(labels: Labels, lanes: Mask) -> Labels:
    return np.where(lanes, labels, np.int16(0))
