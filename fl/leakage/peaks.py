"""Local maxima on a grid, compiled."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import BoolArray, FloatArray


@compiled
def local_maxima(values: FloatArray, least: float) -> BoolArray:
    """Which of values (p, q) are above `least` and above all eight neighbours: (p, q).

    Strictly above the neighbours that come first, so that equal neighbours make one peak.
    """
    p, q = values.shape
    peak = np.zeros((p, q), dtype=np.bool_)
    for i in range(p):
        for j in range(q):
            value = values[i, j]
            beside = (j == 0 or value > values[i, j - 1]) and (j + 1 == q or value >= values[i, j + 1])
            if not (value > least and beside):  # most cells are no peak at a glance
                continue
            peak[i, j] = True
            for k in range(max(j - 1, 0), min(j + 2, q)):
                peak[i, j] &= i == 0 or value > values[i - 1, k]
                peak[i, j] &= i + 1 == p or value >= values[i + 1, k]
    return peak
