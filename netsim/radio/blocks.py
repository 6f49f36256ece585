"""Blocks of links: as many pairs of a position and a base station as a cache holds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

BLOCK_PAIRS = 2**18  # of which one array of numbers has 2 MiB


def blocks(n: int, n_bs: int) -> list[slice]:
    """Rows of n positions in blocks of about as many pairs as a cache holds; no block has one row of several.

    Every pair is calculated by itself, so blocks change no number; they bound the memory that laws work in.
    """
    count = max(1, min(n * n_bs // BLOCK_PAIRS, n // 2))
    edge = np.arange(count + 1) * n // count
    return [slice(a, b) for a, b in pairwise(edge.tolist())]
