"""Which blocks of a region lie on every path to a block."""

from __future__ import annotations

from tilesight.ir.module import Block, Region


def dominators(region: Region) -> dict[Block, set[Block]]:
    """Each block with its dominators, itself among them.

    A block that the entry does not reach is dominated by every block, as in MLIR.
    """
    blocks = region.blocks
    predecessors: dict[Block, list[Block]] = {block: [] for block in blocks}
    for block in blocks:
        for operation in block.operations:
            for successor, _ in operation.successors:
                predecessors.setdefault(successor, []).append(block)
    result = {block: set(blocks) for block in blocks}
    if blocks:
        result[blocks[0]] = {blocks[0]}
    changed = True
    while changed:
        changed = False
        for block in blocks[1:]:
            above = [result[other] for other in predecessors[block]]
            found = {block} | set[Block].intersection(*above) if above else set(blocks)
            changed = changed or found != result[block]
            result[block] = found
    return result
