"""Places in resource blocks: from priorities of UEs to grants, for all cells at once."""

from __future__ import annotations

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray


def ranks(serving: IntArray, *keys: FloatArray) -> tuple[IntArray, IntArray]:
    """Rank (n,) of each UE among those of its cell, by increasing keys (n,), the first the foremost, then by order of
    entry; and the number (n,) of UEs in its cell.
    """
    order = np.lexsort((*keys[::-1], serving))
    cell = serving[order]
    first = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]])[: len(cell)])
    many = np.diff(np.append(first, len(cell)))
    rank, number = np.empty(len(cell), dtype=np.int64), np.empty(len(cell), dtype=np.int64)
    rank[order] = np.arange(len(cell)) - np.repeat(first, many)
    number[order] = np.repeat(many, many)
    return rank, number


def free_blocks(serving: IntArray, resource: IntArray, holds: BoolArray, resource_blocks: int) -> BoolArray:
    """Which resource blocks (n_cells, resource_blocks) are free; holds (n,): whether a UE holds its resource (n,)."""
    free = np.ones((int(serving.max(initial=-1)) + 1, resource_blocks), dtype=np.bool_)
    free[serving[holds], resource[holds]] = False
    return free


def placed(serving: IntArray, group: IntArray, free: BoolArray) -> IntArray:
    """The resource block (n,) of each UE: that of its group, the groups of a cell taking its free blocks in order; -1
    for groups beyond their number.
    """
    blocks = np.argsort(~free, axis=1, kind="stable")  # (n_cells, resource_blocks), the free ones first
    fits = group < free.sum(axis=1)[serving]
    return np.where(fits, blocks[serving, np.where(fits, group, 0)], -1)


def held_or_next(
    serving: IntArray, resource: IntArray, holds: BoolArray, resource_blocks: int, *keys: FloatArray
) -> IntArray:
    """The resource block (n,) of each UE, one UE a block: holders keep theirs, the next by `keys` take the others."""
    result = np.where(holds, resource, -1)
    others = np.flatnonzero(~holds)
    rank, _ = ranks(serving[others], *(key[others] for key in keys))
    free = free_blocks(serving, resource, holds, resource_blocks)
    result[others] = placed(serving[others], rank, free)
    return result
