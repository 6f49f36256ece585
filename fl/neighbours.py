"""The inner loop of DBSCAN for a few places, compiled."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray


@compiled
def paired_labels(position_m: FloatArray, eps_m: float, min_samples: int) -> IntArray:
    """The labels (n,) that `fl.dbscan.dbscan` gives, by the distances of all pairs: O(n^2)."""
    n, within = len(position_m), eps_m * eps_m
    near = np.ones(n, dtype=np.int64)
    for i in range(n):
        for j in range(i):
            dx, dy = position_m[i, 0] - position_m[j, 0], position_m[i, 1] - position_m[j, 1]
            if dx * dx + dy * dy <= within:
                near[i] += 1
                near[j] += 1
    label, waiting = np.full(n, -1), np.empty(n, dtype=np.int64)
    cluster = 0
    for seed in range(n):
        if label[seed] >= 0 or near[seed] < min_samples:
            continue
        label[seed], waiting[0], waits = cluster, seed, 1
        while waits:
            waits -= 1
            i = waiting[waits]
            for j in range(n):
                if label[j] < 0:
                    dx, dy = position_m[i, 0] - position_m[j, 0], position_m[i, 1] - position_m[j, 1]
                    if dx * dx + dy * dy <= within:
                        label[j] = cluster
                        if near[j] >= min_samples:
                            waiting[waits] = j
                            waits += 1
        cluster += 1
    return label
