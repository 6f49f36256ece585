"""Selections of a UE's samples: at random, or by clusters of its positions."""

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.curation import Curation
from fl.types import Curated, Local, RoundContext, State
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


class RandomBatch(Curation):
    """Keeps `num` samples of each UE, drawn uniformly without replacement (all, if it has fewer)."""

    kind: Literal["random"] = "random"
    num: int = Field(ge=1)
    """number of samples kept per UE and round"""

    reference: ClassVar = "control of Bakopoulou et al., Location Leakage in Federated Signal Maps"
    example: ClassVar = {"kind": "random", "num": 5}

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        keep = np.zeros(len(local.x), dtype=bool)
        for row, (ue, model) in enumerate(zip(local.ue, local.model, strict=True)):
            start, stop = local.ptr[row], local.ptr[row + 1]
            order = np.argsort(rng.keys("pick", row_id(int(ue), int(model)), stop - start), kind="stable")
            keep[start + order[: self.num]] = True
        return Curated(local.keep(keep), state)


class DiverseBatch(Curation):
    """Keeps, of each DBSCAN cluster of a UE's positions, the sample nearest to the cluster's mean.

    Long stays then have the same weight as short ones, and the mean of the kept samples differs from the mean of the
    measured ones. A row without any cluster keeps one random sample and counts as `fallback`. Of samples at the same
    distance from the mean the first is kept.

    The step selects true samples and adds no noise, so there is no privacy guarantee. If `eps_m` is too large, all
    clusters merge, and the one remaining sample is the nearest to the mean, which leaks most. The same number of random
    samples (`random`) has much of the effect. Fewer than `min_samples` samples form no cluster.
    """

    kind: Literal["diverse-batch"] = "diverse-batch"
    eps_m: float = Field(default=50.0, gt=0, le=1e6)
    """eps of DBSCAN: samples at most this far apart are neighbours, m"""
    min_samples: int = Field(default=5, ge=1, le=1_000_000)
    """min_samples of DBSCAN: number of neighbours, the sample included, of a core sample"""
    noise: Lone = "drop"
    """samples in no cluster: drop them, or keep each as a cluster of its own"""

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Diverse Batch"
    by_place: ClassVar = True
    needs: ClassVar = {"positions": "it works on places; these data have none"}

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        return select(local, state, rng, self.eps_m, self.min_samples, self.noise, _nearest)


def _nearest(position_m: FloatArray, label: IntArray, owner: int) -> IntArray:
    """The sample of each cluster that is nearest to the cluster's mean."""
    member = np.flatnonzero(label >= 0)
    cluster = label[member]
    away_m = np.linalg.norm(position_m[member] - means(position_m, label)[cluster], axis=1)
    order = np.lexsort((away_m, cluster))
    first = np.unique(cluster[order], return_index=True)[1]
    return member[order[first]]


class FarthestBatch(Curation):
    """Keeps `num` samples of each UE from the DBSCAN clusters farthest from the mean of its data of the round.

    Clusters in order of decreasing distance from their mean to the mean of all samples, noise included; in a cluster
    samples in random order. If all clusters together have fewer than `num` samples, all of those are kept. A row
    without any cluster keeps one random sample and counts as `fallback`.

    The step selects true samples and adds no noise, so there is no privacy guarantee. It moves an estimate of the mean
    towards another true place: on days between home and work towards one of the two. With `num: 1` one true location is
    used. Compare it with the same number of random samples (`random`).
    """

    kind: Literal["farthest-batch"] = "farthest-batch"
    num: int = Field(ge=1)
    """number of samples kept per UE and round"""
    eps_m: float = Field(default=50.0, gt=0, le=1e6)
    """eps of DBSCAN: samples at most this far apart are neighbours, m"""
    min_samples: int = Field(default=5, ge=1, le=1_000_000)
    """min_samples of DBSCAN: number of neighbours, the sample included, of a core sample"""
    noise: Lone = "drop"
    """samples in no cluster: drop them, or keep each as a cluster of its own"""

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Farthest Batch"
    example: ClassVar = {"kind": "farthest-batch", "num": 5}
    by_place: ClassVar = True
    needs: ClassVar = {"positions": "it works on places; these data have none"}

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        def farthest(position_m: FloatArray, label: IntArray, owner: int) -> IntArray:
            away_m = np.linalg.norm(means(position_m, label) - position_m.mean(axis=0), axis=1)
            rank = np.argsort(np.argsort(-away_m, kind="stable"))
            member = np.flatnonzero(label >= 0)
            lot = rng.keys("pick", owner, len(label))[member]
            return member[np.lexsort((lot, rank[label[member]]))[: self.num]]

        return select(local, state, rng, self.eps_m, self.min_samples, self.noise, farthest)
