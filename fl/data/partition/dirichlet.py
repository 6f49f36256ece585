"""Dirichlet partition: a random mixture of classes for each UE."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.data.partition.base import Partition
from netsim.rng import Rng
from netsim.units import IntArray


class Dirichlet(Partition):
    """Each UE draws its class shares from Dirichlet(alpha, ..., alpha), and its images from these shares.

    A small alpha gives few classes per UE, a large one nearly equal shares.
    """

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: float = Field(default=0.5, ge=1e-3, le=1e6)
    """concentration parameter of the Dirichlet distribution"""

    reference: ClassVar = "Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution, 2019, Section 3"
    example: ClassVar = {"kind": "dirichlet"}

    def counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        device = np.arange(len(size))
        alpha = np.full(len(per_class), self.alpha)
        share = np.array([rng.generator("shares", int(k)).dirichlet(alpha) for k in device])
        unit, edges = rng.uniform("class", device, (int(size.max(initial=0)),)), np.cumsum(share, axis=1)
        counts = np.empty(share.shape, dtype=np.int64)
        for k in device:
            chosen = np.searchsorted(edges[k] / edges[k, -1], unit[k, : size[k]], side="right")
            counts[k] = np.bincount(chosen, minlength=len(per_class))
        return counts
