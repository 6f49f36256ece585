"""Selections of a UE's samples: at random, or by clusters of its positions."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.curation import Curation
from fl.types import Curated, Local, RoundContext, State
from netsim.columns import row_id
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class RandomBatch(Curation):
    """Keeps `num` samples of each UE, drawn uniformly without replacement (all, if it has fewer)."""

    kind: Literal["random"] = "random"
    num: int = Field(ge=1)
    """number of samples kept per UE and round"""

    reference: ClassVar = "control of Bakopoulou et al., Location Leakage in Federated Signal Maps"
    example: ClassVar = {"kind": "random", "num": 5}

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        keep = np.zeros(len(local.x), dtype=bool)
        for row, owner in enumerate(row_id(local.ue, local.model).tolist()):
            order = np.argsort(rng.keys("pick", owner, int(local.count[row])), kind="stable")
            keep[local.ptr[row] + order[: self.num]] = True
        return Curated(local.keep(keep), state)


class ClusterBatch(Curation):
    """Keeps samples of the DBSCAN clusters of a UE's positions; `chosen` of the subclass names them.

    A row without any cluster keeps one random sample and counts as `fallback`.
    """

    eps_m: float = Field(default=50.0, gt=0, le=1e6)
    """eps of DBSCAN: samples at most this far apart are neighbours, m"""
    min_samples: int = Field(default=5, ge=1, le=1_000_000)
    """min_samples of DBSCAN: number of neighbours, the sample included, of a core sample"""

    by_place: ClassVar = True
    needs: ClassVar = {"positions": "it works on places; these data have none"}

    @abstractmethod
    def chosen(self, position_m: FloatArray, cluster: IntArray, mean_m: FloatArray, lot: FloatArray) -> IntArray:
        """Indices of samples at positions (n, 2), of clusters (n,) with means (k, 2), -1 for none; lot (n,) uniform."""

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        from fl.dbscan import dbscan  # compiled: not for readers of scenarios

        n = len(local.ue)
        keep = np.zeros(len(local.x), dtype=bool)
        clusters = np.zeros(n, dtype=np.int64)
        noise = np.zeros(n, dtype=np.int64)
        owner = row_id(local.ue, local.model).tolist()
        for row in np.flatnonzero(local.count):
            start = local.ptr[row]
            stop = local.ptr[row + 1]
            position_m = local.x[start:stop]
            cluster = dbscan(position_m, self.eps_m, self.min_samples)
            clusters[row], noise[row] = cluster.max() + 1, (cluster < 0).sum()
            if clusters[row] == 0:
                keep[start + rng.keys("one", owner[row], len(cluster)).argmin()] = True
                continue
            count = np.bincount(cluster + 1)[1:]
            total = [np.bincount(cluster + 1, weights=axis)[1:] for axis in position_m.T]
            lot = rng.keys("pick", owner[row], len(cluster))
            keep[start + self.chosen(position_m, cluster, np.stack(total, axis=1) / count[:, None], lot)] = True
        fallback = (local.count > 0) & (clusters == 0)
        return Curated(local.keep(keep), state, clusters=clusters, noise=noise, fallback=fallback)


class DiverseBatch(ClusterBatch):
    """Keeps, of each DBSCAN cluster of a UE's positions, the sample nearest to the cluster's mean.

    Long stays then have the same weight as short ones, and the mean of the kept samples differs from the mean of the
    measured ones. A row without any cluster keeps one random sample and counts as `fallback`. Of samples at the same
    distance from the mean the first is kept.

    The step selects true samples and adds no noise, so there is no privacy guarantee. If `eps_m` is too large, all
    clusters merge, and the one remaining sample is the nearest to the mean, which leaks most. The same number of random
    samples (`random`) has much of the effect. Fewer than `min_samples` samples form no cluster.
    """

    kind: Literal["diverse-batch"] = "diverse-batch"

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Diverse Batch"

    def chosen(self, position_m: FloatArray, cluster: IntArray, mean_m: FloatArray, lot: FloatArray) -> IntArray:
        """The sample of each cluster that is nearest to the cluster's mean."""
        order = np.lexsort((np.linalg.norm(position_m - mean_m[cluster], axis=1), cluster))
        kinds, first = np.unique(cluster[order], return_index=True)
        return order[first[kinds >= 0]]


class FarthestBatch(ClusterBatch):
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

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Farthest Batch"
    example: ClassVar = {"kind": "farthest-batch", "num": 5}

    def chosen(self, position_m: FloatArray, cluster: IntArray, mean_m: FloatArray, lot: FloatArray) -> IntArray:
        away_m = np.linalg.norm(mean_m - position_m.mean(axis=0), axis=1)
        rank = np.argsort(np.argsort(-away_m, kind="stable"))
        member = np.flatnonzero(cluster >= 0)
        return member[np.lexsort((lot[member], rank[cluster[member]]))[: self.num]]
