"""Dirichlet partition: a random mixture of classes for each UE."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.data.partition.base import Partition
from netsim.rng import Rng
from netsim.units import IntArray

_LEAST = 1e-300  # share of a class, so that some class is left to draw from when all others have run out


class Dirichlet(Partition):
    """Each UE draws its class shares from Dirichlet(alpha, ..., alpha), and its images from these shares.

    A small alpha gives few classes per UE, a large one nearly equal shares. UEs draw one after the other, and no image
    twice: of a class that has run out a UE takes none, and its shares of the other classes grow in proportion. The more
    of the images are dealt, the more the last UEs hold what is left.
    """

    kind: Literal["dirichlet"] = "dirichlet"
    alpha: float = Field(default=0.5, ge=1e-3, le=1e6)
    """concentration parameter of the Dirichlet distribution"""

    reference: ClassVar = "Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution, 2019, Section 3"

    def counts(self, size: IntArray, per_class: IntArray, rng: Rng) -> IntArray:
        counts, left = np.zeros((len(size), len(per_class)), dtype=np.int64), per_class.copy()
        for k, own in enumerate(counts):
            draw = rng.generator("shares", k)
            share = np.maximum(draw.dirichlet(np.full(len(left), self.alpha)), _LEAST)
            while (lacking := min(size[k] - own.sum(), left.sum())) > 0:
                there = share * (left > 0)
                taken = np.minimum(draw.multinomial(lacking, there / there.sum()), left)
                own += taken
                left -= taken
        return counts
