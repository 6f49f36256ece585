"""Clusters of a device's own positions, and the walk over rows that every selection by cluster shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from fl.types import Curated, Local, State
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import FloatArray, IntArray

Lone = Literal["drop", "keep"]
Choice = Callable[[FloatArray, IntArray, int], IntArray]
"""(positions (n, 2), label (n,) with -1 for samples to leave out, owner) -> indices of the samples to keep."""

_CHUNK = 256  # samples whose neighbours are listed at once


def dbscan(position_m: FloatArray, eps_m: float, min_samples: int) -> IntArray:
    """DBSCAN's label of each position (n, 2): 0, 1, ... or -1 for noise.

    A sample with at least `min_samples` within `eps_m`, itself among them, is a core; cores within `eps_m` of each
    other share a cluster, and a sample that is no core joins the first cluster with a core within `eps_m` of it.

    Labels are those of `sklearn.cluster.DBSCAN` (but for rounding where two samples are just `eps_m` apart). It is not
    called because it holds all lists of neighbours at once, which for people who dwell grow with the square of the
    samples: 1.6 GB for 20,000 of them. Here a list is forgotten when it has been walked, and samples with a label
    leave the tree.
    """
    label = np.full(len(position_m), -1)
    if len(position_m) < min_samples:
        return label
    from sklearn.neighbors import KDTree

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


def means(position_m: FloatArray, label: IntArray) -> FloatArray:
    """Mean position of each cluster (k, 2); samples with label -1 count for none."""
    member = label >= 0
    count = np.bincount(label[member])
    total = [np.bincount(label[member], weights=axis) for axis in position_m[member].T]
    return np.asarray(np.stack(total, axis=1) / count[:, None])


def select(local: Local, state: State, rng: Rng, eps_m: float, min_samples: int, lone: Lone, choice: Choice) -> Curated:
    """Of each row the samples that `choice` names; of a row without any cluster one at random, which is its fallback.

    `lone: keep` lets each sample in no cluster stand as a cluster of its own. Nothing is kept of an empty row.
    """
    n = len(local.ue)
    keep = np.zeros(len(local.x), dtype=bool)
    clusters, noise, fallback = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
    for row, owner in enumerate(row_id(local.ue, local.model).tolist()):
        start, stop = local.ptr[row], local.ptr[row + 1]
        if start == stop:
            continue
        position_m = local.x[start:stop]
        label = dbscan(position_m, eps_m, min_samples)
        alone = label < 0
        clusters[row], noise[row] = label.max() + 1, alone.sum()
        if lone == "keep":
            label[alone] = clusters[row] + np.arange(noise[row])
        fallback[row] = label.max() < 0
        if fallback[row]:
            keep[start + rng.keys("one", owner, len(label)).argmin()] = True
        else:
            keep[start + choice(position_m, label, owner)] = True
    return Curated(local.keep(keep), state, clusters=clusters, noise=noise, fallback=fallback)
