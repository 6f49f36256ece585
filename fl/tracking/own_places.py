r"""Places to which a UE jumps back, by part of the day.

    target = 0.6 o_part + 0.3 o + 0.1 pi,

with o_part the mean of what was believed of the UE in past rounds of this part of the day, o that of all parts, and pi
the prior of jumps; pi takes the place of a mean that has no round yet. Parts are quarters of a day, on weekdays and on
weekends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.tracking.habits import CLASSES
from fl.tracking.maps import Maps, sums
from fl.tracking.motion import resampled
from fl.tracking.place_grid import PlaceGrid
from netsim.units import IntArray

PARTS = 8
_PART, _ALL = 0.6, 0.3


@dataclass(frozen=True)
class OwnPlaces:
    """occupancy : for each part, sums of beliefs (n_ue, ny, nx); empty where UEs have no places of their own."""

    occupancy: list[Maps]

    @classmethod
    def none(cls, n_ue: int, known: bool, ny: int, nx: int) -> OwnPlaces:
        """Before anything is believed; not known: jumps go where those of all UEs go."""
        return cls([np.zeros((n_ue, ny, nx), dtype=np.float32) for _ in range(PARTS if known else 0)])

    def plus(self, at: int, p: Maps) -> OwnPlaces:
        """With what is believed (n_ue, ny, nx) of a round in a class of hours."""
        part = part_of_day(at)
        return OwnPlaces([o + p if i == part else o for i, o in enumerate(self.occupancy)])

    def target(self, at: int, prior: Maps) -> Maps:
        """Distribution of the ends of jumps (n_ue or 1, ny, nx) in a class of hours; prior (1, ny, nx)."""
        if not self.occupancy:
            return prior
        part, every = self.occupancy[part_of_day(at)], sum(self.occupancy[1:], self.occupancy[0])
        mixed = np.float32(_PART) * _mean(part, prior) + np.float32(_ALL) * _mean(every, prior)
        return np.asarray(mixed + np.float32(1 - _PART - _ALL) * prior)

    def of(self, some: IntArray) -> OwnPlaces:
        """Select some UEs (k,)."""
        return OwnPlaces([o[some] for o in self.occupancy])

    def resampled(self, grid: PlaceGrid) -> OwnPlaces:
        """On another grid of the same area."""
        return OwnPlaces([resampled(o, grid) for o in self.occupancy])

    def forgotten(self) -> OwnPlaces:
        """The same UEs, before anything is believed."""
        return OwnPlaces([np.zeros_like(o) for o in self.occupancy])


def part_of_day(at: int) -> int:
    """Quarter of the day, and 4 more on weekends, of a class of hours."""
    return at * PARTS // CLASSES


def _mean(occupancy: Maps, prior: Maps) -> Maps:
    """Maps (n, ny, nx) that sum to 1."""
    total = sums(occupancy)[:, None, None]
    return np.where(total > 0, occupancy / np.maximum(total, np.float32(1e-30)), prior)
