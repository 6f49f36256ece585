"""Farthest Batch: samples from clusters far from the mean position of the UE."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.curation.base import Curation
from fl.curation.clusters import Lone, means, select
from fl.types import Curated, Local, RoundContext, State
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


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
