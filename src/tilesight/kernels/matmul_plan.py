"""How a matrix product is laid over programs: tiles of the result, shared out among programs that stay."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

PROCESSORS = 132
"""Of an H200; what the engine plans for."""
SHARED_BYTES = 232_448 - 1024
"""Of a program on an H200, but for barriers."""
LARGE_WORK = 1 << 30
"""Multiplications from which tensor descriptors are worth the microseconds that making them takes."""
LEAST_STEPS = 4
"""Of a program's way along K: fewer are not worth a second launch that sums."""
MOST_SPLITS = 64
INT32_END = 1 << 31


@dataclass(frozen=True)
class MatmulPlan:
    """Constants of a launch.

    Args:
        block_m, block_n, block_k: of a tile, powers of two; with a gated activation a program has two tiles of
            half of block_n
        speed: multiplications of a program in a unit of time, beside the other plans of its table
        is_tma: tiles come and go by tensor descriptors, else by pointers
        splits: programs that share the K of one tile
        subtiles: 1, 2 or 4 pieces that a tile is finished in, one after another: less shared memory
        group: rows of tiles that go through the columns together, so that L2 holds them
        is_persistent: there are no more programs than the GPU runs at once, and each goes from tile to tile
    """

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    speed: float = 1.0
    is_tma: bool = False
    splits: int = 1
    subtiles: int = 1
    group: int = 8
    is_persistent: bool = True

    def tiles(self, batches: int, rows: int, columns: int) -> int:
        """Tiles of that many matrices, before K is split."""
        return batches * pieces(rows, self.block_m) * pieces(columns, self.block_n)


BITS_16 = (
    MatmulPlan(128, 256, 64, 8, 4, 1.0, subtiles=2),
    MatmulPlan(128, 128, 64, 8, 4, 0.85),
    MatmulPlan(64, 256, 64, 4, 4, 0.8, subtiles=2),
    MatmulPlan(64, 128, 64, 4, 4, 0.65),
    MatmulPlan(64, 64, 64, 4, 5, 0.45),
    MatmulPlan(32, 128, 64, 4, 5, 0.3),
    MatmulPlan(16, 128, 64, 4, 5, 0.16),
    MatmulPlan(16, 64, 128, 4, 4, 0.09),
)
BITS_8 = (
    MatmulPlan(128, 128, 128, 8, 4, 1.0),
    MatmulPlan(64, 128, 128, 4, 4, 0.7),
    MatmulPlan(64, 64, 128, 4, 5, 0.45),
    MatmulPlan(32, 128, 128, 4, 4, 0.3),
    MatmulPlan(16, 128, 128, 4, 4, 0.16),
)
TF32 = (
    MatmulPlan(128, 128, 32, 8, 4, 1.0),
    MatmulPlan(64, 128, 32, 4, 4, 0.7),
    MatmulPlan(64, 64, 32, 4, 4, 0.45),
    MatmulPlan(32, 64, 32, 4, 4, 0.25),
    MatmulPlan(16, 64, 64, 4, 4, 0.13),
)
FLOAT32 = (
    MatmulPlan(128, 64, 16, 8, 3, 1.0, is_persistent=False),
    MatmulPlan(64, 64, 16, 4, 3, 0.9, is_persistent=False),
    MatmulPlan(32, 32, 32, 4, 3, 0.5, is_persistent=False),
    MatmulPlan(16, 32, 32, 2, 3, 0.3, is_persistent=False),
)
FLOAT64 = (MatmulPlan(32, 32, 16, 4, 2, 1.0, is_persistent=False),)
"""By element, the largest tile first. `speed` is an estimate until it is measured."""
ON_TENSOR_CORES = (BITS_16, BITS_8, TF32)
"""Fed fast enough to gain from tensor descriptors."""


def pieces(whole: int, part: int) -> int:
    """Parts that cover the whole."""
    return -(-whole // part)


def table_of(dtype: torch.dtype, precision: str) -> tuple[MatmulPlan, ...]:
    """The plans for operands of a dtype."""
    if dtype == torch.float64:
        return FLOAT64
    if dtype == torch.float32:
        return TF32 if precision == "tf32" else FLOAT32
    return BITS_8 if dtype.itemsize == 1 else BITS_16


@lru_cache(maxsize=4096)
def plan_for(dtype: torch.dtype, precision: str, sizes: tuple[int, int, int, int], processors: int) -> MatmulPlan:
    """The plan from a dtype's table, with descriptors where there is work enough; chosen once for each argument.

    Args:
        sizes: batches, M, K, N
    """
    table = table_of(dtype, precision)
    batches, rows, k, columns = sizes
    plan = plan_matmul(table, batches, rows, columns, k, processors)
    is_large = math.prod(sizes) >= LARGE_WORK and table in ON_TENSOR_CORES
    return replace(plan, is_tma=True) if is_large else plan


def plan_matmul(
    table: tuple[MatmulPlan, ...], batches: int, rows: int, columns: int, k: int, processors: int = PROCESSORS
) -> MatmulPlan:
    """The plan that is done first, if a program takes as long as its tiles and the GPU runs one a multiprocessor.

    Args:
        columns: of the right operand, both halves where an activation is gated
    """

    def time(plan: MatmulPlan) -> float:
        rounds = pieces(plan.tiles(batches, rows, columns) * plan.splits, processors)
        return rounds * plan.block_m * plan.block_n / plan.speed / plan.splits

    return min((split(plan, plan.tiles(batches, rows, columns), k, processors) for plan in table), key=time)


def split(plan: MatmulPlan, tiles: int, k: int, processors: int) -> MatmulPlan:
    """A plan whose K is shared where the tiles leave multiprocessors without work."""
    steps = pieces(k, plan.block_k)
    splits = min(processors // max(1, tiles), steps // LEAST_STEPS, MOST_SPLITS)
    if splits < 2:
        return plan
    return replace(plan, splits=pieces(steps, pieces(steps, splits)), subtiles=1)


def fitted(plan: MatmulPlan, is_tma: bool, has_more: bool, item: int, y_item: int) -> MatmulPlan:
    """A plan with which no register is spilled and shared memory is enough, by compiling it for an H200.

    What a tile is finished with crosses shared memory between the tensor cores' order of elements and memory's. In
    smaller pieces 255 registers are enough for 128 sums of a thread, but not where addresses are kept as well.

    Args:
        has_more: whether a residual is added or z is kept
        item, y_item: bytes of an operand's element and of the result's
    """
    if has_more and plan.block_m * plan.block_n >= 128 * 32 * plan.num_warps:
        is_narrow = is_tma and plan.block_m >= 128
        plan = replace(plan, subtiles=4) if is_narrow else replace(plan, block_n=plan.block_n // 2)
    if has_more and plan.subtiles < 2 and plan.block_m * plan.block_n >= 64 * 32 * plan.num_warps:
        plan = replace(plan, subtiles=2)
    piece = plan.block_m * plan.block_n // plan.subtiles * y_item * (1 + has_more)
    stage = plan.block_k * (plan.block_m + plan.block_n) * item
    most = (SHARED_BYTES - (piece if is_tma else 0)) // stage
    return plan if plan.num_stages <= most else replace(plan, num_stages=most)


def processors_of(tensor: torch.Tensor) -> int:
    """Multiprocessors of the GPU that a tensor is on."""
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count if tensor.is_cuda else PROCESSORS


def takes_descriptor(tensor: torch.Tensor) -> bool:
    """Whether the GPU's tensor memory accelerator can go through [batch, rows, columns], either axis dense."""
    if tensor.numel() == 0 or 1 not in tensor.stride()[1:]:
        return False
    rows, columns = tensor.stride()[1:]
    others = (tensor.stride(0), rows if columns == 1 else columns)
    is_new = not tensor.is_cuda or torch.cuda.get_device_capability(tensor.device)[0] >= 9
    is_aligned = tensor.data_ptr() % 16 == 0 and all(each * tensor.element_size() % 16 == 0 for each in others)
    return is_new and is_aligned and others[1] > 0


def dense_axis(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with one of its last two axes dense: itself, else a copy."""
    return tensor if 1 in tensor.stride()[-2:] else tensor.contiguous()


def is_turned(tensor: torch.Tensor) -> bool:
    """Whether the columns of [batch, rows, columns] lie dense."""
    return tensor.stride(2) != 1


def is_batched(tensor: torch.Tensor) -> bool:
    """Whether there is more than one matrix in [batch, rows, columns]."""
    return tensor.shape[0] > 1 and tensor.stride(0) != 0


def source_of(tensor: torch.Tensor, rows: int, columns: int, is_tma: bool) -> Any:
    """What a kernel reads, or writes, tiles of [batch, rows, columns] by."""
    if not is_tma:
        return tensor
    lies = tensor.transpose(1, 2) if is_turned(tensor) else tensor
    block = [columns, rows] if is_turned(tensor) else [rows, columns]
    if is_batched(tensor):
        return TensorDescriptor(lies, list(lies.shape), list(lies.stride()), [1, *block])
    return TensorDescriptor(lies[0], list(lies.shape[1:]), list(lies.stride()[1:]), block)


def is_wide(plan: MatmulPlan, *tensors: torch.Tensor) -> bool:
    """Whether offsets inside a tile need 64 bits."""
    lanes = max(plan.block_m, plan.block_n, plan.block_k)
    return any(lanes * max(tensor.stride()[1:]) >= INT32_END for tensor in tensors)
