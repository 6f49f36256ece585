"""Clusters of places by density, compiled: DBSCAN by the distances of all pairs."""

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray, IntArray


@compiled
def _measure_square(position_m: FloatArray, i: int, j: int) -> float:
    """Squared distance of two of the positions."""
    dx = position_m[i, 0] - position_m[j, 0]
    dy = position_m[i, 1] - position_m[j, 1]
    return float(dx * dx + dy * dy)


@compiled
def cluster_by_density(position_m: FloatArray, eps_m: float, min_samples: int) -> IntArray:
    """DBSCAN's label of each position (n, 2): 0, 1, ... or -1 for noise; in O(n^2) time and O(n)
    memory.

    A sample with at least `min_samples` within `eps_m`, itself among them, is a core; cores within
    `eps_m` of each other share a cluster, and a sample that is no core joins the first cluster with
    a core within `eps_m` of it.

    Labels are those of `sklearn.cluster.DBSCAN` (but for rounding where two samples are just
    `eps_m` apart). It is not called because a call costs milliseconds, of which the cloud of one
    update's units is worth a tenth, and because it holds all lists of neighbours at once: 1.6 GB
    for 20,000 samples of people who dwell.
    """
    n = len(position_m)
    within = eps_m * eps_m
    near = np.ones(n, dtype=np.int64)
    for i in range(n):
        for j in range(i):
            if _measure_square(position_m, i, j) <= within:
                near[i] += 1
                near[j] += 1
    label = np.full(n, -1)
    waiting = np.empty(n, dtype=np.int64)
    cluster = 0
    for seed in range(n):
        if label[seed] >= 0 or near[seed] < min_samples:
            continue
        label[seed] = cluster
        waiting[0] = seed
        waits = 1
        while waits:
            waits -= 1
            i = waiting[waits]
            for j in range(n):
                if label[j] < 0 and _measure_square(position_m, i, j) <= within:
                    label[j] = cluster
                    if near[j] >= min_samples:
                        waiting[waits] = j
                        waits += 1
        cluster += 1
    return label
