"""Which bytes of a storage a view holds: the same for a tensor and its transpose, others for its first half."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

Axis = tuple[int, int]


@dataclass(frozen=True)
class Slice:
    """The bytes of a storage that a view holds.

    Args:
        first: the first byte
        axes: (extent, stride in bytes), the largest stride first, neighbours that make one run joined
    """

    first: int
    axes: tuple[Axis, ...]

    @property
    def bytes(self) -> int:
        """How many; of a view whose elements overlap, such as a sliding window, more than there are."""
        return prod(extent for extent, _ in self.axes)


def slice_of(shape: Sequence[int], strides: Sequence[int], offset: int, item_bytes: int) -> Slice:
    """The slice that a view holds: broadcast axes count once, and the order of the axes tells nothing.

    Args:
        shape, strides, offset: in elements
    """
    if 0 in shape:
        return Slice(0, ((0, 1),))
    axes = [(extent, stride * item_bytes) for extent, stride in zip(shape, strides, strict=True) if extent > 1]
    found: list[Axis] = [(item_bytes, 1)]
    for extent, stride in sorted((axis for axis in axes if axis[1]), key=lambda axis: axis[1]):
        inner, step = found[-1]
        if stride == inner * step:
            found[-1] = (inner * extent, step)
        else:
            found.append((extent, stride))
    return Slice(offset * item_bytes, tuple(reversed(found)))


def bytes_together(slices: Iterable[Slice], held: int) -> int:
    """Bytes of different slices of a storage that holds `held`: of slices that overlap, at most that."""
    return min(held, sum(each.bytes for each in set(slices)))
