"""Clusters of places by density: DBSCAN, for a few places by all their pairs and for many by a tree."""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray, IntArray

MOST_PAIRED = 1000  # places of which all pairs are compared
_CHUNK = 256  # samples whose neighbours are listed at once


def dbscan(position_m: FloatArray, eps_m: float, min_samples: int) -> IntArray:
    """DBSCAN's label of each position (n, 2): 0, 1, ... or -1 for noise.

    A sample with at least `min_samples` within `eps_m`, itself among them, is a core; cores within `eps_m` of each
    other share a cluster, and a sample that is no core joins the first cluster with a core within `eps_m` of it.

    Labels are those of `sklearn.cluster.DBSCAN` (but for rounding where two samples are just `eps_m` apart). It is not
    called because a call costs milliseconds, of which the cloud of one update's units is worth a tenth, and because it
    holds all lists of neighbours at once, which for people who dwell grow with the square of the samples: 1.6 GB for
    20,000 of them.
    """
    if len(position_m) < min_samples:
        return np.full(len(position_m), -1)
    if len(position_m) <= MOST_PAIRED:
        from fl.neighbours import paired_labels

        return paired_labels(np.ascontiguousarray(position_m, dtype=np.float64), float(eps_m), min_samples)
    return _by_tree(position_m, eps_m, min_samples)


def _by_tree(position_m: FloatArray, eps_m: float, min_samples: int) -> IntArray:
    """The labels of many: a list of neighbours is forgotten when it was walked, and who has a label leaves the tree."""
    from sklearn.neighbors import KDTree

    label = np.full(len(position_m), -1)
    tree, inside = KDTree(position_m), np.arange(len(position_m))
    core = tree.query_radius(position_m, eps_m, count_only=True) >= min_samples
    cluster = 0
    for seed in np.flatnonzero(core):
        if label[seed] >= 0:
            continue
        label[seed], front = cluster, np.array([seed])
        while len(front):
            free = label[inside] < 0
            if not free.any():
                return label
            if 2 * np.count_nonzero(free) < len(inside):
                inside = inside[free]
                tree = KDTree(position_m[inside])
            near = inside[np.unique(np.concatenate(tree.query_radius(position_m[front[:_CHUNK]], eps_m)))]
            new = near[label[near] < 0]
            label[new] = cluster
            front = np.concatenate([front[_CHUNK:], new[core[new]]])
        cluster += 1
    return label
