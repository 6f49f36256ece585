"""Clusters of a device's own positions, and the walk over rows that every selection by cluster shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from fl.types import Curated, Local, State
from netsim.columns import row_id
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

Lone = Literal["drop", "keep"]
Choice = Callable[[FloatArray, IntArray, int], IntArray]
"""(positions (n, 2), label (n,) with -1 for samples to leave out, owner) -> indices of the samples to keep."""


def means(position_m: FloatArray, label: IntArray) -> FloatArray:
    """Mean position of each cluster (k, 2); samples with label -1 count for none."""
    member = label >= 0
    count = np.bincount(label[member])
    total = [np.bincount(label[member], weights=axis) for axis in position_m[member].T]
    return np.stack(total, axis=1) / count[:, None]


def select(local: Local, state: State, rng: Rng, eps_m: float, min_samples: int, lone: Lone, choice: Choice) -> Curated:
    """Select the samples that `choice` names in each row; a row without clusters falls back to one at random.

    `lone: keep` lets each sample in no cluster stand as a cluster of its own. Nothing is kept of an empty row.
    """
    from fl.dbscan import dbscan  # compiled: not for readers of scenarios

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
