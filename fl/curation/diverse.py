"""Diverse Batch: one sample for each cluster of positions."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.curation.base import Curation
from fl.curation.clusters import Lone, means, select
from fl.types import Curated, Local, RoundContext, State
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


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
